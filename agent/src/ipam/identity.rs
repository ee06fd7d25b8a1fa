//! Who asks for an address. Decides what a pod's `app` is; leaves reading the pod to the sources.

/// What `ip-algo` may show of a pod, and the key under which its addresses are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodIdentity {
    /// The pod's namespace.
    pub namespace: String,
    /// The workload, as [`app_name`] says.
    pub app: String,
    /// The first container's image, as written.
    pub image: String,
    /// Names the attachment in conflicts and in [`Ipam::holder`](super::Ipam::holder).
    pub holder: String,
}

/// The `app` of a pod: the name of its controller, a ReplicaSet without the template hash of the
/// Deployment that made it (so that a rollout keeps the name), and without a controller the pod's
/// own name. `controller` is (kind, name), `template_hash` the label `pod-template-hash`.
pub fn app_name<'a>(
    controller: Option<(&str, &'a str)>,
    template_hash: Option<&str>,
    pod_name: &'a str,
) -> &'a str {
    match controller {
        Some(("ReplicaSet", name)) => without_template_hash(name, template_hash),
        Some((_, name)) => name,
        None => pod_name,
    }
}

/// With the label there is no doubt. Without it (a manifest written by hand) the last word goes
/// when it looks like a hash of Kubernetes: a ReplicaSet `my-app` stays whole.
fn without_template_hash<'a>(name: &'a str, template_hash: Option<&str>) -> &'a str {
    let Some((front, last)) = name.rsplit_once('-') else {
        return name;
    };
    let is_hash = match template_hash {
        Some(hash) => hash == last,
        // k8s.io/apimachinery/pkg/util/rand: SafeEncodeString writes with these characters only.
        None => {
            (6..=10).contains(&last.len())
                && last.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b))
        }
    };
    if is_hash && !front.is_empty() { front } else { name }
}
