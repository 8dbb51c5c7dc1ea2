;; Reads beyond the end of its memory.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
  (memory (export "memory") 1)
  (func (export "_start") (drop (i32.load (i32.const 0x7fff0000)))))
