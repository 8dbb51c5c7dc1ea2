;; A core module that imports from the world of another host.
(module
  (import "env" "abort" (func (param i32)))
  (memory (export "memory") 1)
  (func (export "_start")))
