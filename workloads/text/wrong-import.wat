;; A program that imports something which every node offers, and has its type wrong.
(component
  (import "wasi:cli/environment@0.2.12" (instance $environment (export "get-arguments" (func (result u32)))))
  (core func $arguments (canon lower (func $environment "get-arguments")))
  (core module $code
    (import "environment" "get-arguments" (func $arguments (result i32)))
    (func (export "run") (result i32) (drop (call $arguments)) (i32.const 0)))
  (core instance $made
    (instantiate $code (with "environment" (instance (export "get-arguments" (func $arguments))))))
  (func $run (result (result)) (canon lift (core func $made "run")))
  (instance $entry (export "run" (func $run)))
  (export "wasi:cli/run@0.2.12" (instance $entry)))
