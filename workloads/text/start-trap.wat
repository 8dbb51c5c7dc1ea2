;; Divides by zero in its start function, which runs while the program is being made, before `_start`.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
  (memory (export "memory") 1)
  (func $divide (drop (i32.div_u (i32.const 1) (i32.const 0))))
  (start $divide)
  (func (export "_start")))
