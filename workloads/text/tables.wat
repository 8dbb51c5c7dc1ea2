;; Grows a table without end.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
  (memory (export "memory") 1)
  (table $table 1 funcref)
  (func (export "_start")
    (loop $again
      (drop (table.grow $table (ref.null func) (i32.const 65536)))
      (br $again))))
