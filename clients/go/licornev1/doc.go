// Package licornev1 is generated from proto/licorne/v1; nothing in it is hand-written.
package licornev1
