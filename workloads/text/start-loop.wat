;; Loops for ever in its start function, which runs while the program is being made, before `_start`.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
  (memory (export "memory") 1)
  (func $spin (loop $again (br $again)))
  (start $spin)
  (func (export "_start")))
