;; A component of another world: it opens doors, and nobody here has one.
(component
  (core module $code (func (export "open")))
  (core instance $made (instantiate $code))
  (func $open (canon lift (core func $made "open")))
  (instance $door (export "open" (func $open)))
  (export "acme:door/opener@1.0.0" (instance $door)))
