/* SPDX-License-Identifier: BSD-2-Clause */
/* What flame graph pages are made of, as text that ends with a NUL. */
	.section .rodata

	.global	flame_page
flame_page:
	.incbin	"user/flame/page.html"
	.byte	0

	.global	flame_style
flame_style:
	.incbin	"user/flame/style.css"
	.byte	0

/* One script of these, in this order. */
	.global	flame_script
flame_script:
	.incbin	"user/flame/format.js"
	.incbin	"user/flame/data.js"
	.incbin	"user/flame/estimate.js"
	.incbin	"user/flame/views.js"
	.incbin	"user/flame/search.js"
	.incbin	"user/flame/graph.js"
	.incbin	"user/flame/timeline.js"
	.incbin	"user/flame/header.js"
	.incbin	"user/flame/tooltip.js"
	.incbin	"user/flame/page.js"
	.byte	0

	.section .note.GNU-stack, "", @progbits
