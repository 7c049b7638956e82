// Package licornev1 is generated from proto/licorne/v1; nothing is hand-written.
package licornev1
