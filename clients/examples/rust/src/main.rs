//! The example RM in Rust: over a session, or over the three streams of si.v1.

use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, transport::Channel};

use books::{Books, QUEUES, RM, applications, nodes};
use licorne::v1::{
    Goodbye, Heartbeat, Hello, ReplayBegin, ReplayEnd, UpdateRequest,
    session_client::SessionClient, update_request::Message as Request,
    update_response::Message as Response,
};
use si::v1::{
    AllocationRelease, AllocationReleasesRequest, AllocationRequest, ApplicationRequest,
    NodeRequest, RegisterResourceManagerRequest, scheduler_client::SchedulerClient,
};

mod books;
mod licorne {
    pub mod v1 {
        tonic::include_proto!("licorne.v1");
    }
}
#[allow(dead_code)] // stubs of what this RM does not use
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
    let instance = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)?
        .as_millis() as u64;
    let channel = Channel::from_shared(format!("http://{target}"))?.connect_lazy();
    let mut books = Books::new(args.len() > 2);
    while !books.is_over() {
        let result = match mode.as_str() {
            "session" => over_session(channel.clone(), &mut books, instance).await,
            _ => over_si(channel.clone(), &mut books).await,
        };
        if let Err(lost) = result {
            eprintln!("{lost}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    Ok(())
}

/// Numbers what is sent over a session.
struct Requests {
    stream: mpsc::UnboundedSender<UpdateRequest>,
    number: u64,
    acknowledged: u64,
}

impl Requests {
    fn send(&mut self, message: Request) {
        self.number += 1;
        self.send_as(self.number, message);
    }

    fn send_as(&self, number: u64, message: Request) {
        let request = UpdateRequest {
            number,
            acknowledged: self.acknowledged,
            message: Some(message),
        };
        // It fails only where the stream has ended, and then reading tells why.
        let _ = self.stream.send(request);
    }

    fn release(&mut self, items: Vec<AllocationRelease>) {
        if !items.is_empty() {
            self.send(Request::Allocations(releasing(items)));
        }
    }

    /// Says all that there is, between begin and end.
    fn replay(&mut self, books: &Books) {
        let (nodes, new, allocations) = (nodes(), applications(), books.all());
        let end = ReplayEnd {
            nodes: nodes.len() as u32,
            applications: 1,
            allocations: allocations.len() as u32,
        };
        self.send(Request::ReplayBegin(ReplayBegin {}));
        self.send(Request::Nodes(NodeRequest {
            nodes,
            ..Default::default()
        }));
        self.send(Request::Applications(ApplicationRequest {
            new,
            ..Default::default()
        }));
        self.send(Request::Allocations(AllocationRequest {
            allocations,
            ..Default::default()
        }));
        self.send(Request::ReplayEnd(end));
    }
}

fn releasing(items: Vec<AllocationRelease>) -> AllocationRequest {
    let releases = AllocationReleasesRequest {
        allocations_to_release: items,
    };
    AllocationRequest {
        rm_id: RM.into(),
        releases: Some(releases),
        ..Default::default()
    }
}

fn registration() -> RegisterResourceManagerRequest {
    RegisterResourceManagerRequest {
        rm_id: RM.into(),
        config: QUEUES.into(),
        ..Default::default()
    }
}

/// One stream of a session, from its hello on. Without a resume token it begins with a replay.
async fn over_session(channel: Channel, books: &mut Books, instance: u64) -> Result<(), Status> {
    let (stream, receiver) = mpsc::unbounded_channel();
    let mut requests = Requests {
        stream,
        number: 0,
        acknowledged: 0,
    };
    let hello = Hello {
        rm_id: RM.into(),
        instance,
        protocol: 1,
        registration: Some(registration()),
        ..Default::default()
    };
    requests.send_as(0, Request::Hello(hello));
    let mut responses = SessionClient::new(channel)
        .update(UnboundedReceiverStream::new(receiver))
        .await?
        .into_inner();
    while let Some(response) = responses.message().await? {
        requests.acknowledged = requests.acknowledged.max(response.number);
        match response.message {
            Some(Response::Welcome(_)) => {
                println!("registered");
                requests.replay(books);
            }
            Some(Response::Heartbeat(_)) => requests.send_as(0, Request::Heartbeat(Heartbeat {})),
            Some(Response::ReplayResult(result)) if !result.complete => {
                return Err(Status::data_loss(result.reason));
            }
            Some(Response::ReplayResult(_)) => requests.release(books.replayed()),
            Some(Response::Allocations(response)) => requests.release(books.note(response)),
            _ => {}
        }
        if books.is_over() {
            requests.send(Request::Goodbye(Goodbye {
                unregister: true,
                ..Default::default()
            }));
        }
    }
    Ok(())
}

/// The three streams have no order among them, so each waits for the one before.
async fn over_si(channel: Channel, books: &mut Books) -> Result<(), Status> {
    let mut client = SchedulerClient::new(channel);
    client.register_resource_manager(registration()).await?;
    println!("registered");
    let (node_stream, receiver) = mpsc::unbounded_channel();
    let _ = node_stream.send(NodeRequest {
        rm_id: RM.into(),
        nodes: nodes(),
    });
    let mut responses = client
        .update_node(UnboundedReceiverStream::new(receiver))
        .await?
        .into_inner();
    let mut accepted = 0;
    while accepted < nodes().len() {
        accepted += responses.message().await?.ok_or(ended())?.accepted.len();
    }
    let (app_stream, receiver) = mpsc::unbounded_channel();
    let _ = app_stream.send(ApplicationRequest {
        rm_id: RM.into(),
        new: applications(),
        ..Default::default()
    });
    let mut responses = client
        .update_application(UnboundedReceiverStream::new(receiver))
        .await?
        .into_inner();
    responses.message().await?;
    let (asks, receiver) = mpsc::unbounded_channel();
    let (known, mut echoed) = (books.running(), 0);
    let _ = asks.send(AllocationRequest {
        rm_id: RM.into(),
        allocations: books.all(),
        ..Default::default()
    });
    let mut responses = client
        .update_allocation(UnboundedReceiverStream::new(receiver))
        .await?
        .into_inner();
    while !books.is_over() {
        let response = responses.message().await?.ok_or(ended())?;
        // The server echoes every allocation that it was told of.
        echoed += response.new.len();
        let mut items = books.note(response);
        if known > 0 && echoed == known {
            items.extend(books.replayed());
        }
        if !items.is_empty() {
            let _ = asks.send(releasing(items));
        }
    }
    Ok(())
}

fn ended() -> Status {
    Status::unavailable("the server has ended the stream")
}
