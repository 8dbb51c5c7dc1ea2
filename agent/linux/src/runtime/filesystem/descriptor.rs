//! Every call on a descriptor: what it costs is charged, and wasmtime does it.

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::filesystem::types::{self, HostDescriptor, HostDirectoryEntryStream};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsResult, ReaddirIterator};

use super::streams::{Read, Written};
use super::{DIRECTORY_BYTES, ENTRY_BYTES, STREAM_BYTES, View, full, refund_unless_made, same};

type Fd = Resource<Descriptor>;

impl View<'_> {
    fn written(
        &mut self,
        fd: u32,
        stream: Resource<DynOutputStream>,
        position: Option<u64>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let handle = self.files.handle(&Resource::new_borrow(fd))?;
        let buffer = self.files.hold(STREAM_BYTES)?;
        let inner = self.wasi.table.delete(stream)?;
        let written: DynOutputStream = Box::new(Written { inner, handle, position, is_full: false, _buffer: buffer });
        Ok(self.wasi.table.push(written)?)
    }
}

impl HostDescriptor for View<'_> {
    async fn advise(&mut self, fd: Fd, offset: u64, length: u64, advice: types::Advice) -> FsResult<()> {
        self.files.call(0);
        self.wasi.advise(fd, offset, length, advice).await
    }

    async fn sync_data(&mut self, fd: Fd) -> FsResult<()> {
        self.files.call(0);
        self.wasi.sync_data(fd).await
    }

    async fn get_flags(&mut self, fd: Fd) -> FsResult<types::DescriptorFlags> {
        self.files.call(0);
        self.wasi.get_flags(fd).await
    }

    async fn get_type(&mut self, fd: Fd) -> FsResult<types::DescriptorType> {
        self.files.call(0);
        self.wasi.get_type(fd).await
    }

    async fn set_size(&mut self, fd: Fd, size: u64) -> FsResult<()> {
        self.files.call(0);
        let handle = self.files.handle(&fd)?;
        if let Some((quota, inode)) = &handle.charged {
            quota.resizing(*inode, size).map_err(full)?;
        }
        let done = self.wasi.set_size(fd, size).await;
        handle.resized();
        done
    }

    async fn set_times(&mut self, fd: Fd, access: types::NewTimestamp, change: types::NewTimestamp) -> FsResult<()> {
        self.files.call(0);
        self.wasi.set_times(fd, access, change).await
    }

    async fn read(&mut self, fd: Fd, length: u64, offset: u64) -> FsResult<(Vec<u8>, bool)> {
        self.files.call(length.min(STREAM_BYTES));
        let _buffer = self.files.hold(length.min(STREAM_BYTES))?;
        self.wasi.read(fd, length, offset).await
    }

    async fn write(&mut self, fd: Fd, buffer: Vec<u8>, offset: u64) -> FsResult<u64> {
        let count = buffer.len() as u64;
        self.files.call(count);
        let _buffer = self.files.hold(count)?;
        let handle = self.files.handle(&fd)?;
        handle.growing(Some(offset), count).map_err(full)?;
        let done = self.wasi.write(fd, buffer, offset).await;
        if done.as_ref().map_or(true, |written| *written < count) {
            handle.resized();
        }
        done
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<ReaddirIterator>> {
        let entries = self.files.quota(&fd).map_or(0, |quota| quota.used_files());
        self.files.call(entries.saturating_mul(ENTRY_BYTES));
        let listing = self.files.hold(entries.saturating_mul(ENTRY_BYTES))?;
        let stream = self.wasi.read_directory(fd).await?;
        self.files.listings.insert(stream.rep(), listing);
        Ok(stream)
    }

    async fn sync(&mut self, fd: Fd) -> FsResult<()> {
        self.files.call(0);
        self.wasi.sync(fd).await
    }

    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let quota = self.charge(&fd, DIRECTORY_BYTES)?;
        let made = self.wasi.create_directory_at(fd, path).await;
        refund_unless_made(made, quota.as_ref(), DIRECTORY_BYTES)
    }

    async fn stat(&mut self, fd: Fd) -> FsResult<types::DescriptorStat> {
        self.files.call(0);
        self.wasi.stat(fd).await
    }

    async fn stat_at(&mut self, fd: Fd, flags: types::PathFlags, path: String) -> FsResult<types::DescriptorStat> {
        self.files.call(0);
        self.wasi.stat_at(fd, flags, path).await
    }

    async fn set_times_at(
        &mut self,
        fd: Fd,
        flags: types::PathFlags,
        path: String,
        access: types::NewTimestamp,
        change: types::NewTimestamp,
    ) -> FsResult<()> {
        self.files.call(0);
        self.wasi.set_times_at(fd, flags, path, access, change).await
    }

    async fn link_at(
        &mut self,
        fd: Fd,
        flags: types::PathFlags,
        path: String,
        new_fd: Fd,
        new_path: String,
    ) -> FsResult<()> {
        same(self.files.quota(&fd).as_ref(), self.files.quota(&new_fd).as_ref())?;
        let quota = self.charge(&fd, 0)?;
        let made = self.wasi.link_at(fd, flags, path, new_fd, new_path).await;
        refund_unless_made(made, quota.as_ref(), 0)
    }

    async fn open_at(
        &mut self,
        fd: Fd,
        path_flags: types::PathFlags,
        path: String,
        open_flags: types::OpenFlags,
        flags: types::DescriptorFlags,
    ) -> FsResult<Fd> {
        self.files.call(0);
        let place = self.files.place()?;
        let quota = self.files.quota(&fd);
        let (mut before, mut makes) = (None, false);
        if quota.is_some() && open_flags.intersects(types::OpenFlags::CREATE | types::OpenFlags::TRUNCATE) {
            before = self.find(&fd, path_flags, &path).await;
            makes = before.is_none() && open_flags.contains(types::OpenFlags::CREATE);
        }
        let charged = if makes { self.charge(&fd, 0)? } else { None };
        let opened = self.wasi.open_at(fd, path_flags, path, open_flags, flags).await;
        let opened = refund_unless_made(opened, charged.as_ref(), 0)?;
        let cut = open_flags.contains(types::OpenFlags::TRUNCATE);
        let length_before = before.filter(|_| cut).map(|before| before.size);
        self.track(&opened, place, quota, length_before)?;
        Ok(opened)
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        let opened = self.files.open.remove(&fd.rep());
        let done = HostDescriptor::drop(&mut self.wasi, fd);
        drop(opened);
        done
    }

    async fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        self.files.call(0);
        self.wasi.readlink_at(fd, path).await
    }

    async fn remove_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        self.files.call(0);
        let quota = self.files.quota(&fd);
        self.wasi.remove_directory_at(fd, path).await?;
        if let Some(quota) = quota {
            quota.refund(DIRECTORY_BYTES, 1);
        }
        Ok(())
    }

    async fn rename_at(&mut self, fd: Fd, path: String, new_fd: Fd, new_path: String) -> FsResult<()> {
        self.files.call(0);
        let quota = self.files.quota(&fd);
        same(quota.as_ref(), self.files.quota(&new_fd).as_ref())?;
        let replaced = match quota {
            Some(_) => self.find(&new_fd, types::PathFlags::empty(), &new_path).await,
            None => None,
        };
        let from = Resource::new_borrow(fd.rep());
        self.wasi.rename_at(fd, path.clone(), new_fd, new_path).await?;
        // Where both were names of one file, both still are.
        if replaced.is_some() && self.find(&from, types::PathFlags::empty(), &path).await.is_none() {
            Self::removed(quota.as_ref(), replaced.as_ref());
        }
        Ok(())
    }

    async fn symlink_at(&mut self, fd: Fd, path: String, new_path: String) -> FsResult<()> {
        let quota = self.charge(&fd, 0)?;
        let made = self.wasi.symlink_at(fd, path, new_path).await;
        refund_unless_made(made, quota.as_ref(), 0)
    }

    async fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        self.files.call(0);
        let quota = self.files.quota(&fd);
        let before = match quota {
            Some(_) => self.find(&fd, types::PathFlags::empty(), &path).await,
            None => None,
        };
        self.wasi.unlink_file_at(fd, path).await?;
        Self::removed(quota.as_ref(), before.as_ref());
        Ok(())
    }

    fn read_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynInputStream>> {
        let number = fd.rep();
        let stream = self.wasi.read_via_stream(fd, offset)?;
        let handle = self.files.handle(&Resource::new_borrow(number))?;
        let buffer = self.files.hold(STREAM_BYTES)?;
        let inner = self.wasi.table.delete(stream)?;
        let read: DynInputStream = Box::new(Read { inner, _handle: handle, _buffer: buffer });
        Ok(self.wasi.table.push(read)?)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynOutputStream>> {
        let number = fd.rep();
        let stream = self.wasi.write_via_stream(fd, offset)?;
        self.written(number, stream, Some(offset))
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        let number = fd.rep();
        let stream = self.wasi.append_via_stream(fd)?;
        self.written(number, stream, None)
    }

    async fn is_same_object(&mut self, one: Fd, two: Fd) -> wasmtime::Result<bool> {
        self.files.call(0);
        self.wasi.is_same_object(one, two).await
    }

    async fn metadata_hash(&mut self, fd: Fd) -> FsResult<types::MetadataHashValue> {
        self.files.call(0);
        self.wasi.metadata_hash(fd).await
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Fd,
        flags: types::PathFlags,
        path: String,
    ) -> FsResult<types::MetadataHashValue> {
        self.files.call(0);
        self.wasi.metadata_hash_at(fd, flags, path).await
    }
}

impl HostDirectoryEntryStream for View<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<ReaddirIterator>,
    ) -> FsResult<Option<types::DirectoryEntry>> {
        self.wasi.read_directory_entry(stream).await
    }

    fn drop(&mut self, stream: Resource<ReaddirIterator>) -> wasmtime::Result<()> {
        let listing = self.files.listings.remove(&stream.rep());
        let done = HostDirectoryEntryStream::drop(&mut self.wasi, stream);
        drop(listing);
        done
    }
}
