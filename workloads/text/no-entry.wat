;; A valid component that exports nothing.
(component
  (core module))
