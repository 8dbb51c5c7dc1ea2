;; Goes two thousand calls deep with the host beneath the deepest, which fits on the stack, and ends well.
(module
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (func $deeper (param $left i32) (result i32)
    (if (result i32) (local.get $left)
      (then (i32.add (call $deeper (i32.sub (local.get $left) (i32.const 1))) (i32.const 1)))
      (else (call $clock (i32.const 1) (i64.const 0) (i32.const 64)))))
  (func (export "_start")
    (if (i32.ne (call $deeper (i32.const 2000)) (i32.const 2000)) (then unreachable))))
