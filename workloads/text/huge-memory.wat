;; Declares a memory of 4 GiB, all that a 32-bit program can address.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
  (memory (export "memory") 65536)
  (func (export "_start")))
