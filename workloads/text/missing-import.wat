;; A program that imports an interface which no node offers.
(component
  (import "acme:gpio/pins@1.0.0" (instance $pins (export "set" (func (param "pin" u32) (param "high" bool)))))
  (core func $set (canon lower (func $pins "set")))
  (core module $code
    (import "pins" "set" (func $set (param i32 i32)))
    (func (export "run") (result i32)
      (call $set (i32.const 4) (i32.const 1))
      (i32.const 0)))
  (core instance $made (instantiate $code (with "pins" (instance (export "set" (func $set))))))
  (func $run (result (result)) (canon lift (core func $made "run")))
  (instance $entry (export "run" (func $run)))
  (export "wasi:cli/run@0.2.12" (instance $entry)))
