;; Calls itself without end, with the host beneath every call, so that the stack ends now in the guest, now on its way
;; to the host.
(module
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (func $deeper (param $depth i32) (result i32)
    (drop (call $clock (i32.const 1) (i64.const 0) (i32.const 64)))
    (i32.add (call $deeper (i32.add (local.get $depth) (i32.const 1))) (local.get $depth)))
  (func (export "_start")
    (drop (call $deeper (i32.const 0)))))
