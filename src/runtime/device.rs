//! Training for real: the same program, executed by one process per rank on this machine's CPU.
//!
//! [`train`] is the coordinator's side: it starts the processes, has them step together, and gathers losses and times.
//! [`run_rank`] is a rank's: it drives its own rank of the program over a [`Backend`](super::Backend) whose passes are
//! tensor operations and whose transfers go through sockets. Ranks are processes because the autodiff library holds one
//! lock per process over all graphs while it goes backward.
//!
//! Nothing outside this room names the tensor library. It is also the one place beside the command line that reads a
//! clock: what it reports are measurements.

mod all_reduce;
mod backend;
mod check;
mod clock;
mod coordinator;
mod data;
mod error;
mod mailbox;
mod mesh;
mod messages;
mod model;
mod optimizer;
mod processes;
mod rank;
mod secret;
mod stage;
mod tied;
mod transport;

pub use check::check_job;
pub use coordinator::{StepReport, program, train};
pub use data::DataSet;
pub use error::DeviceError;
pub use messages::Job;
pub use optimizer::AdamW;
pub use processes::{COORDINATOR_VARIABLE, RANK_VARIABLE, RankCommand};
pub use rank::run_rank;
pub use secret::{SECRET_VARIABLE, Secret};
pub use transport::{TcpTransport, Transport, TransportError};
