//! A service that logs by `tracing`, to trace with `dtrace`: `docs/tracing.md` does so.

use std::time::Duration;

use tracing::{info, info_span, warn};
use tracing_subscriber::layer::SubscriberExt as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _traced = sdt_process::start()?;
    tracing::subscriber::set_global_default(
        tracing_subscriber::registry().with(sdt_tracing::layer()),
    )?;
    for order in 0_u64.. {
        let customer = ["ada", "grace", "linus"][order as usize % 3];
        let _span = info_span!("handle", order, customer).entered();
        std::thread::sleep(Duration::from_micros(200 + 300 * (order % 5)));
        if order % 7 == 0 {
            warn!(order, cause = "out of stock", "order failed");
        } else {
            info!(order, items = order % 4, "order placed");
        }
    }
    Ok(())
}
