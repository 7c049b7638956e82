//! Generates the stubs from the .proto files, without protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protos = "../../../proto";
    println!("cargo::rerun-if-changed={protos}");
    let files = protox::compile(["licorne/v1/session.proto"], [protos])?;
    tonic_prost_build::configure().build_server(false).compile_fds(files)?;
    Ok(())
}
