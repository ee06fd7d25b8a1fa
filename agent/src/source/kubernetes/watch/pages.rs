//! A list in pages: for what may be too much for one answer. Decides how an expired list is begun anew.

use kube::api::ListParams;

use super::{End, Followed, Listener, Told, Watch};

impl Watch {
    /// Tells of all objects, page by page, and says the version that they are of.
    ///
    /// Without a version, which is a consistent read: with "0", from the API server's memory, most of
    /// them ignore the limit and answer with everything at once, and the pods of a large cluster are
    /// some 80 MB. The price is that older API servers read each page from etcd (newer ones have
    /// snapshots in memory): many agents that come back at once make work for it. So only what needs it
    /// is listed like this, in pages as large as the API server's own clients ask for, after pauses that
    /// differ.
    pub(super) async fn list_pages<K, N, F>(
        &self,
        page: u32,
        listener: &Listener<N, F>,
    ) -> Result<String, Option<End>>
    where
        K: Followed,
        F: Fn(Told<K>) -> Option<N>,
    {
        let mut params = ListParams {
            field_selector: self.fields.clone(),
            limit: Some(page),
            ..ListParams::default()
        };
        let mut anew = false;
        loop {
            let list = match self.ask::<K>(&params).await {
                Ok(list) => list,
                // It took too long for what etcd keeps. Once that is bad luck.
                Err(End::Expired(_)) if params.continue_token.is_some() && !anew => {
                    anew = true;
                    params.continue_token = None;
                    continue;
                }
                Err(end) => return Err(Some(end)),
            };
            let first = params.continue_token.is_none();
            if !listener.tell(Told::Part { first, some: list.items }).await {
                return Err(None);
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(list.metadata.resource_version.unwrap_or_default()),
            }
        }
    }
}
