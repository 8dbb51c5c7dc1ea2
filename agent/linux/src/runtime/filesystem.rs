//! `wasi:filesystem/types` and `preopens` as guests see them: wasmtime's own implementation, which keeps a guest inside
//! its directories, and around it the count of what is open and of what is put onto the disk.
//!
//! More than a container may have open is `insufficient-memory` (`ENOMEM`; this version of WASI has no word for
//! `EMFILE`); more than a volume may hold is `insufficient-space` (`ENOSPC`). Two volumes are two file systems, although
//! both are directories of one disk: nothing is moved or linked from one to the other (`EXDEV`).

use std::collections::HashMap;
use std::sync::Arc;

use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
use wasmtime_wasi::p2::{FsError, FsResult};

use self::types::{ErrorCode, HostDescriptor};
use super::host::Host;
use super::memory::{self, Account};
use super::meter::Meter;
use super::preopen::{DiskFull, DiskQuota, Inode, Preopen};
use super::tally::Tally;

mod descriptor;
mod streams;

/// Files and directories that one container may have open.
pub(super) const MAX_DESCRIPTORS: u64 = 1024;
/// What the host keeps for one stream of a file: a piece that is on its way.
const STREAM_BYTES: u64 = 64 * 1024;
/// What the host keeps for one entry of a directory that is being listed.
const ENTRY_BYTES: u64 = 320;
/// About what one call takes on a disk thread, whose time nobody measures for a single guest.
const CALL_NS: u64 = 5_000;
/// And for so many bytes, another nanosecond.
const BYTES_A_NS: u64 = 4;

/// What a directory takes on the disk.
const DIRECTORY_BYTES: u64 = 4096;

/// What one instance has open.
pub(super) struct Files {
    preopened: Vec<Opened>,
    open: HashMap<u32, Opened>,
    listings: HashMap<u32, memory::Held>,
    descriptors: Arc<Tally>,
    account: Arc<Account>,
    meter: Arc<Meter>,
}

#[derive(Clone)]
struct Opened {
    quota: Option<Arc<DiskQuota>>,
    handle: Arc<Handle>,
}

/// A descriptor of the operating system, for as long as anything uses it.
pub(super) struct Handle {
    _place: Place,
    charged: Option<(Arc<DiskQuota>, Inode)>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some((quota, inode)) = &self.charged {
            quota.closed(*inode);
        }
    }
}

impl Handle {
    fn growing(&self, offset: Option<u64>, count: u64) -> Result<(), DiskFull> {
        self.charged.as_ref().map_or(Ok(()), |(quota, inode)| quota.growing(*inode, offset, count))
    }

    fn resized(&self) {
        if let Some((quota, inode)) = &self.charged {
            quota.resized(*inode);
        }
    }
}

/// One of the descriptors that a container may have.
struct Place(Arc<Tally>);

impl Place {
    fn take(descriptors: &Arc<Tally>) -> Option<Self> {
        descriptors.take(1).ok().map(|()| Self(Arc::clone(descriptors)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.give_back(1);
    }
}

impl Files {
    /// With these directories open, or nothing if there are too many.
    pub(super) fn new(
        preopens: &[Preopen],
        descriptors: &Arc<Tally>,
        account: &Arc<Account>,
        meter: &Arc<Meter>,
    ) -> Option<Self> {
        let mut preopened = Vec::new();
        for preopen in preopens {
            let handle = Arc::new(Handle { _place: Place::take(descriptors)?, charged: None });
            preopened.push(Opened { quota: preopen.quota.clone(), handle });
        }
        let (descriptors, account, meter) = (Arc::clone(descriptors), Arc::clone(account), Arc::clone(meter));
        Some(Self { preopened, open: HashMap::new(), listings: HashMap::new(), descriptors, account, meter })
    }

    fn place(&self) -> Result<Place, ErrorCode> {
        Place::take(&self.descriptors).ok_or(ErrorCode::InsufficientMemory)
    }

    fn call(&self, bytes: u64) {
        self.meter.charge_elsewhere(CALL_NS + bytes / BYTES_A_NS);
    }

    fn quota(&self, fd: &Resource<Descriptor>) -> Option<Arc<DiskQuota>> {
        self.open.get(&fd.rep())?.quota.clone()
    }

    fn handle(&self, fd: &Resource<Descriptor>) -> FsResult<Arc<Handle>> {
        let opened = self.open.get(&fd.rep()).map(|opened| Arc::clone(&opened.handle));
        opened.ok_or_else(|| ErrorCode::BadDescriptor.into())
    }

    fn hold(&self, bytes: u64) -> FsResult<memory::Held> {
        self.account.hold(bytes).map_err(FsError::trap)
    }
}

fn full(_: DiskFull) -> FsError {
    ErrorCode::InsufficientSpace.into()
}

fn same(one: Option<&Arc<DiskQuota>>, two: Option<&Arc<DiskQuota>>) -> FsResult<()> {
    let same = match (one, two) {
        (Some(one), Some(two)) => Arc::ptr_eq(one, two),
        (None, None) => true,
        _ => false,
    };
    if same { Ok(()) } else { Err(ErrorCode::CrossDevice.into()) }
}

/// See [`HasData`].
pub(super) struct Filesystem;

impl HasData for Filesystem {
    type Data<'a> = View<'a>;
}

/// The guest's files during one call.
pub(super) struct View<'a> {
    wasi: WasiFilesystemCtxView<'a>,
    files: &'a mut Files,
}

fn view(host: &mut Host) -> View<'_> {
    let (wasi, files) = host.filesystem_and_files();
    View { wasi, files }
}

/// Offers both interfaces.
pub(super) fn add_to_linker(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    preopens::add_to_linker::<Host, Filesystem>(linker, view)?;
    types::add_to_linker::<Host, Filesystem>(linker, view)
}

impl View<'_> {
    /// What is at a path, as the sandbox sees it: kind, length, and number of names.
    async fn find(
        &mut self,
        fd: &Resource<Descriptor>,
        flags: types::PathFlags,
        path: &str,
    ) -> Option<types::DescriptorStat> {
        let fd = Resource::new_borrow(fd.rep());
        HostDescriptor::stat_at(&mut self.wasi, fd, flags, path.to_owned()).await.ok()
    }

    fn track(
        &mut self,
        fd: &Resource<Descriptor>,
        place: Place,
        quota: Option<Arc<DiskQuota>>,
        length_before: Option<u64>,
    ) -> FsResult<()> {
        let charged = match (self.wasi.table.get(fd)?, &quota) {
            (Descriptor::File(file), Some(quota)) => {
                Some((Arc::clone(quota), quota.opened(&file.file, length_before)?))
            }
            _ => None,
        };
        let handle = Arc::new(Handle { _place: place, charged });
        self.files.open.insert(fd.rep(), Opened { quota, handle });
        Ok(())
    }

    /// Something with a name is gone, that was this.
    fn removed(quota: Option<&Arc<DiskQuota>>, before: Option<&types::DescriptorStat>) {
        let (Some(quota), Some(before)) = (quota, before) else { return };
        match before.type_ {
            types::DescriptorType::Directory => quota.refund(DIRECTORY_BYTES, 1),
            types::DescriptorType::RegularFile => quota.removed(before.size, before.link_count),
            _ => quota.refund(0, 1),
        }
    }

    /// Takes room for something new, of which nobody knows yet whether it can be made.
    fn charge(&self, fd: &Resource<Descriptor>, bytes: u64) -> FsResult<Option<Arc<DiskQuota>>> {
        self.files.call(0);
        let quota = self.files.quota(fd);
        if let Some(quota) = &quota {
            quota.charge(bytes, 1).map_err(full)?;
        }
        Ok(quota)
    }
}

/// Gives the room back for what could not be made.
fn refund_unless_made<T>(made: FsResult<T>, quota: Option<&Arc<DiskQuota>>, bytes: u64) -> FsResult<T> {
    if let (Err(_), Some(quota)) = (&made, quota) {
        quota.refund(bytes, 1);
    }
    made
}

impl preopens::Host for View<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let directories = self.wasi.get_directories()?;
        for ((fd, _), opened) in directories.iter().zip(&self.files.preopened) {
            self.files.open.insert(fd.rep(), opened.clone());
        }
        Ok(directories)
    }
}

impl types::Host for View<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        types::Host::convert_error_code(&mut self.wasi, error)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        types::Host::filesystem_error_code(&mut self.wasi, error)
    }
}
