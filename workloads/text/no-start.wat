;; A module for WASI preview 1 that exports no `_start`.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
  (memory (export "memory") 1)
  (func (export "main")))
