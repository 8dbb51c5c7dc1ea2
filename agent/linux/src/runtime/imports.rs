//! What guests may import, interface by interface, so that each can have an implementation of our own.

use wasmtime::component::Linker;
use wasmtime::{Engine, Result};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::p2::bindings::{cli, random, sockets};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView as _};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView as _};

use super::host::Host;
use super::{filesystem, termination};

/// The interfaces, in order, and of each something that is in it. Every `0.2.x` of WASI fits.
const INTERFACES: [(&str, &str); 30] = [
    ("coracle:lifecycle/termination@0.1", "requested"),
    ("wasi:cli/environment@0.2", "get-environment"),
    ("wasi:cli/exit@0.2", "exit"),
    ("wasi:cli/stderr@0.2", "get-stderr"),
    ("wasi:cli/stdin@0.2", "get-stdin"),
    ("wasi:cli/stdout@0.2", "get-stdout"),
    ("wasi:cli/terminal-input@0.2", "terminal-input"),
    ("wasi:cli/terminal-output@0.2", "terminal-output"),
    ("wasi:cli/terminal-stderr@0.2", "get-terminal-stderr"),
    ("wasi:cli/terminal-stdin@0.2", "get-terminal-stdin"),
    ("wasi:cli/terminal-stdout@0.2", "get-terminal-stdout"),
    ("wasi:clocks/monotonic-clock@0.2", "now"),
    ("wasi:clocks/wall-clock@0.2", "now"),
    ("wasi:filesystem/preopens@0.2", "get-directories"),
    ("wasi:filesystem/types@0.2", "descriptor"),
    ("wasi:http/outgoing-handler@0.2", "handle"),
    ("wasi:http/types@0.2", "fields"),
    ("wasi:io/error@0.2", "error"),
    ("wasi:io/poll@0.2", "poll"),
    ("wasi:io/streams@0.2", "input-stream"),
    ("wasi:random/insecure-seed@0.2", "insecure-seed"),
    ("wasi:random/insecure@0.2", "get-insecure-random-bytes"),
    ("wasi:random/random@0.2", "get-random-bytes"),
    ("wasi:sockets/instance-network@0.2", "instance-network"),
    ("wasi:sockets/ip-name-lookup@0.2", "resolve-addresses"),
    ("wasi:sockets/network@0.2", "network"),
    ("wasi:sockets/tcp-create-socket@0.2", "create-tcp-socket"),
    ("wasi:sockets/tcp@0.2", "tcp-socket"),
    ("wasi:sockets/udp-create-socket@0.2", "create-udp-socket"),
    ("wasi:sockets/udp@0.2", "udp-socket"),
];

/// The interfaces that guests may import here, with their versions, in order.
#[must_use]
pub fn interfaces() -> Vec<String> {
    INTERFACES.iter().map(|(interface, _)| (*interface).to_owned()).collect()
}

/// Everything that guests may import.
pub(super) fn linker(engine: &Engine) -> Result<Linker<Host>> {
    let mut linker = Linker::new(engine);
    let linked = &mut linker;
    // Streams and polls, clocks, standard input and output, random numbers.
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(linked)?;
    random::insecure::add_to_linker::<Host, WasiRandom>(linked, |host| &mut *host.random())?;
    random::insecure_seed::add_to_linker::<Host, WasiRandom>(linked, |host| &mut *host.random())?;
    cli::exit::add_to_linker::<Host, WasiCli>(linked, Host::cli)?;
    cli::environment::add_to_linker::<Host, WasiCli>(linked, Host::cli)?;
    cli::terminal_input::add_to_linker::<Host, WasiCli>(linked, Host::cli)?;
    cli::terminal_output::add_to_linker::<Host, WasiCli>(linked, Host::cli)?;
    cli::terminal_stdin::add_to_linker::<Host, WasiCli>(linked, Host::cli)?;
    cli::terminal_stdout::add_to_linker::<Host, WasiCli>(linked, Host::cli)?;
    cli::terminal_stderr::add_to_linker::<Host, WasiCli>(linked, Host::cli)?;
    filesystem::add_to_linker(linked)?;
    // Every call is denied until the pod network is there; a guest that merely imports them starts.
    let options = sockets::network::LinkOptions::default();
    sockets::network::add_to_linker::<Host, WasiSockets>(linked, &options, Host::sockets)?;
    sockets::instance_network::add_to_linker::<Host, WasiSockets>(linked, Host::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<Host, WasiSockets>(linked, Host::sockets)?;
    sockets::tcp::add_to_linker::<Host, WasiSockets>(linked, Host::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<Host, WasiSockets>(linked, Host::sockets)?;
    sockets::udp::add_to_linker::<Host, WasiSockets>(linked, Host::sockets)?;
    sockets::udp_create_socket::add_to_linker::<Host, WasiSockets>(linked, Host::sockets)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linked)?;
    termination::add_to_linker(linked)?;
    Ok(linker)
}

#[cfg(test)]
mod tests {
    use wasmtime::StoreContextMut;

    use super::*;

    #[test]
    fn what_a_birth_names_is_what_the_linker_has() {
        let engine = coracle_engine::config(coracle_engine::host_target()).map(|config| Engine::new(&config));
        let Ok(Ok(engine)) = engine else { panic!("no engine") };
        let mut linker = linker(&engine).unwrap_or_else(|error| panic!("{error:#}"));
        for (interface, item) in INTERFACES {
            // Nothing is defined twice, so what cannot be defined is there.
            let version = if interface.starts_with("wasi:") { ".12" } else { ".0" };
            let mut instance = linker
                .instance(&format!("{interface}{version}"))
                .unwrap_or_else(|error| panic!("{interface}: {error:#}"));
            let again = instance.func_wrap(item, |_: StoreContextMut<'_, Host>, (): ()| Ok(()));
            assert!(again.is_err(), "{interface} is not in the linker, or has no {item}");
        }
        assert!(INTERFACES.is_sorted());
    }
}
