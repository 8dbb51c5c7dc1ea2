;; Declares a table of ten million elements, the most that any engine takes.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
  (memory (export "memory") 1)
  (table 10000000 funcref)
  (func (export "_start")))
