//! The example RM in Rust: over a session, or over the three streams of si.v1.

use std::time::{Duration, SystemTime};

use cluster::Items;
use tonic::transport::Channel;

mod cluster;
mod over_session;
mod over_si;
mod licorne {
    pub mod v1 {
        tonic::include_proto!("licorne.v1");
    }
}
#[allow(dead_code)] // not all stubs are used
mod si {
    pub mod v1 {
        tonic::include_proto!("si.v1");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (target, mode) = match args.as_slice() {
        [target, mode, ..] if mode == "session" || mode == "si" => (target, mode),
        _ => return Err("usage: example HOST:PORT session|si [restart]".into()),
    };
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let channel = Channel::from_shared(format!("http://{target}"))?.connect_lazy();
    // With `restart`, nothing is released before a replay.
    let (mut items, restart) = (Items::asks(), args.len() > 2);
    while !items.is_empty() {
        let result = match mode.as_str() {
            "session" => {
                let instance = since.as_millis() as u64;
                over_session::run(channel.clone(), &mut items, restart, instance).await
            }
            _ => over_si::run(channel.clone(), &mut items, restart).await,
        };
        if let Err(lost) = result {
            eprintln!("{lost}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    Ok(())
}
