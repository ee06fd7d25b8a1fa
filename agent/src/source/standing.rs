//! What becomes of the NodeConfig when the source has another one: the same for every source. A good
//! one takes the place of the last; a bad one, or none, never takes it away.

use std::sync::Arc;

use super::{NodeState, Standing};
use crate::config::NodeConfig;

impl NodeState {
    /// The source has this now: a good one, none, or one that is bad for this reason. `place` says
    /// where it is, `missing` what to say where there never was one.
    pub(super) fn take(
        &mut self,
        found: Result<Option<NodeConfig>, String>,
        place: &str,
        missing: impl FnOnce() -> String,
    ) {
        match (found, &mut *self) {
            (Ok(Some(config)), _) => self.follow(config, place),
            (Err(problem), Self::Known { standing, .. }) => {
                let now = Standing::Refused(problem);
                if *standing != now {
                    if let Standing::Refused(reason) = &now {
                        tracing::error!(
                            place,
                            reason,
                            "NodeConfig refused; the last good one stays"
                        );
                    }
                    *standing = now;
                }
            }
            (Ok(None), Self::Known { standing, .. }) => {
                if *standing != Standing::Deleted {
                    tracing::warn!(place, "NodeConfig deleted: pods are kept, new ones refused");
                    *standing = Standing::Deleted;
                }
            }
            (Err(problem), Self::Unknown { reason }) => {
                let now = format!("{place}: {problem}");
                if *reason != now {
                    tracing::error!(place, reason = problem, "NodeConfig refused");
                    *reason = now;
                }
            }
            (Ok(None), Self::Unknown { reason }) => *reason = missing(),
        }
    }

    fn follow(&mut self, config: NodeConfig, place: &str) {
        if let Self::Known { config: known, standing } = self
            && **known == config
        {
            *standing = Standing::InForce;
            return;
        }
        for reason in &config.warnings {
            tracing::warn!(place, reason, "NodeConfig has something that is overlooked");
        }
        *self = Self::Known { config: Arc::new(config), standing: Standing::InForce };
    }
}
