//! `CNI_ARGS`: what the runtime says about the pod, as `K=V;K=V`.
//!
//! Decides which keys are known and what happens to others (CNI conventions:
//! an unknown key is an error unless `IgnoreUnknown` says otherwise). Leaves to
//! the agent whether a pod's name is required.

use crate::error::{CniError, INVALID_ENVIRONMENT};

/// The pod as the runtime knows it. An absent or empty value is None.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodArgs {
    /// `K8S_POD_NAMESPACE`
    pub namespace: Option<String>,
    /// `K8S_POD_NAME`
    pub name: Option<String>,
    /// `K8S_POD_UID`
    pub uid: Option<String>,
    /// `K8S_POD_INFRA_CONTAINER_ID`
    pub infra_container_id: Option<String>,
}

impl PodArgs {
    /// Reads the raw value of `CNI_ARGS`; the empty string has no keys.
    pub fn parse(raw: &str) -> Result<Self, CniError> {
        let mut args = Self::default();
        let mut ignore_unknown = false;
        let mut unknown = None;
        for pair in raw.split(';').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(refused(format!("CNI_ARGS has {pair:?}, which is not KEY=VALUE")));
            };
            let slot = match key {
                "K8S_POD_NAMESPACE" => &mut args.namespace,
                "K8S_POD_NAME" => &mut args.name,
                "K8S_POD_UID" => &mut args.uid,
                "K8S_POD_INFRA_CONTAINER_ID" => &mut args.infra_container_id,
                "IgnoreUnknown" => {
                    ignore_unknown = parse_bool(value)?;
                    continue;
                }
                other => {
                    unknown = unknown.or(Some(other));
                    continue;
                }
            };
            *slot = Some(value).filter(|value| !value.is_empty()).map(str::to_owned);
        }
        match unknown {
            Some(key) if !ignore_unknown => Err(refused(format!(
                "CNI_ARGS has the unknown key {key:?} and no IgnoreUnknown=true"
            ))),
            _ => Ok(args),
        }
    }
}

fn parse_bool(value: &str) -> Result<bool, CniError> {
    match value {
        "1" => Ok(true),
        "0" => Ok(false),
        _ if value.eq_ignore_ascii_case("true") => Ok(true),
        _ if value.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(refused(format!("CNI_ARGS has IgnoreUnknown={value:?}, which is not a boolean"))),
    }
}

fn refused(msg: String) -> CniError {
    CniError::new(INVALID_ENVIRONMENT, msg)
}
