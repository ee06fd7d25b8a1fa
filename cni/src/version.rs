//! Which versions of the CNI spec flock speaks, and what each of them allows.
//!
//! Decides the list and the two gates (CHECK from 0.4.0, GC and STATUS from
//! 1.1.0). Leaves the shape of a result in a version to [`crate::result`].

use std::fmt;

use crate::error::{CniError, INCOMPATIBLE_VERSION};

/// A version of the CNI spec that flock speaks. The order is the spec's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CniVersion {
    /// 0.3.0, which differs from 0.3.1 in the spec's wording alone.
    V0_3_0,
    /// 0.3.1
    V0_3_1,
    /// 0.4.0
    V0_4_0,
    /// 1.0.0
    V1_0_0,
    /// 1.1.0
    V1_1_0,
}

impl CniVersion {
    /// Every version, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V0_3_0, Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];
    /// The newest version: what VERSION answers in.
    pub const NEWEST: Self = Self::V1_1_0;
    /// What an error is written in when the config's own version is unknown:
    /// the version that the installed conflist carries and every runtime reads.
    pub const FALLBACK: Self = Self::V1_0_0;

    /// Reads a config's `cniVersion`. None or "" means 0.1.0 (so says the spec),
    /// which flock does not speak.
    pub fn parse(text: Option<&str>) -> Result<Self, CniError> {
        let text = text.filter(|text| !text.is_empty());
        if let Some(version) = Self::ALL.into_iter().find(|v| Some(v.as_str()) == text) {
            return Ok(version);
        }
        let found = match text {
            Some(text) => format!("cniVersion {text:?} is not supported"),
            None => "cniVersion is missing, which means 0.1.0, and that is not supported".into(),
        };
        let supported = Self::ALL.map(Self::as_str).join(", ");
        Err(CniError::new(INCOMPATIBLE_VERSION, found)
            .with_details(format!("flock supports {supported}")))
    }

    /// The version as the spec writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// CHECK came with 0.4.0.
    #[must_use]
    pub fn has_check(self) -> bool {
        self >= Self::V0_4_0
    }

    /// GC and STATUS came with 1.1.0.
    #[must_use]
    pub fn has_gc_and_status(self) -> bool {
        self >= Self::V1_1_0
    }

    /// Until 0.4.0 every address of a result says whether it is of IPv4 or IPv6.
    #[must_use]
    pub fn marks_family(self) -> bool {
        self < Self::V1_0_0
    }

    /// Since 1.1.0 an interface of a result has an MTU.
    #[must_use]
    pub fn has_interface_mtu(self) -> bool {
        self >= Self::V1_1_0
    }
}

impl fmt::Display for CniVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
