//! ROUTE-REFRESH (RFC 2918 §3) and its demarcation (RFC 7313 §3.2).

/// A ROUTE-REFRESH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refresh {
    /// Address family identifier, as it came: a family that we do not speak is ignored by the
    /// session, not an error here (RFC 2918 §4).
    pub afi: u16,
    /// Subsequent address family identifier.
    pub safi: u8,
    /// What it asks or marks.
    pub kind: RefreshKind,
}

/// The third octet (RFC 7313 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshKind {
    /// 0: send everything again.
    Request,
    /// 1: here it begins (BoRR).
    Begin,
    /// 2: here it ends (EoRR).
    End,
    /// Any other: ignored (RFC 7313 §5).
    Unknown(u8),
}
