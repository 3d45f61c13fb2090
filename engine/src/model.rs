//! STAND-IN
/// STAND-IN
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// x
    pub name: String,
    /// x
    pub dtype: Option<contracts::run::Dtype>,
    /// x
    pub device: contracts::run::Device,
    /// x
    pub threads: Option<u32>,
}
