"""The style sheet of the page: light, printable, no font or image from elsewhere."""

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem; max-width: 1080px; color: #1f2328; background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
}
h1 { font-size: 1.25rem; margin: 0 0 .5rem; color: #57606a; font-weight: 600; }
h2 { font-size: 1.5rem; margin: 3rem 0 .75rem; padding-top: .75rem; border-top: 1px solid #d0d7de; }
h3 { font-size: 1.1rem; margin: 1.75rem 0 .5rem; }
p { margin: .5rem 0; max-width: 50rem; }
ul { margin: .5rem 0; padding-left: 1.25rem; }
main > section > ul { max-width: 50rem; }
li { margin: .2rem 0; }
a { color: #0550ae; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; font-size: .9rem; }
#verdict h2 { margin-top: 1rem; border: 0; padding: 0; }
code { font: .9em/1.4 ui-monospace, "DejaVu Sans Mono", monospace; background: #f3f4f6;
  padding: .1em .3em; border-radius: 3px; }
.banner { padding: 1.1rem 1.4rem; border-left: 8px solid; border-radius: 4px;
  margin: .5rem 0 1rem; }
.banner p { max-width: none; }
.banner.use { border-color: #1a7f37; background: #eefaf1; }
.banner.keep { border-color: #0550ae; background: #eff5fd; }
.banner.stop { border-color: #b3261e; background: #fdf0ef; }
.decision { font-size: 1.9rem; line-height: 1.25; font-weight: 700; margin: 0 0 .4rem;
  overflow-wrap: anywhere; }
.sentence { font-size: 1.15rem; margin: 0; }
.tiles { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0; }
.tile { flex: 1 1 16rem; border: 1px solid #d0d7de; border-radius: 6px; padding: .8rem 1rem; }
.tile p { margin: 0; }
.tile .title, .tile .remark, .note, figcaption { color: #57606a; font-size: .9rem; }
.tile .value { font-size: 1.6rem; font-weight: 700; font-variant-numeric: tabular-nums; }
.status { font-weight: 600; }
.good { color: #116329; }
.bad { color: #a40e26; }
.tag { margin-left: .5em; padding: 0 .45em; border: 1px solid currentColor; border-radius: 3px;
  font-size: .75rem; font-weight: 400; white-space: nowrap; }
.scroll { overflow-x: auto; margin: .75rem 0 1rem; }
.scroll:focus-visible { outline: 2px solid #0550ae; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; line-height: 1.35; }
caption { text-align: left; font-weight: 600; padding: .25rem 0 .4rem; }
th, td { padding: .3rem .55rem; border-bottom: 1px solid #e3e6ea; vertical-align: top;
  text-align: left; }
thead th { border-bottom: 1px solid #57606a; font-weight: 600; vertical-align: bottom; }
thead td { border: 0; }
thead th.group { border-bottom: 1px solid #afb8c1; text-align: center; }
tbody th { font-weight: 500; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
td ul { margin: 0; padding-left: 1rem; }
figure { margin: 1rem 0; }
.chart { overflow-x: auto; }
.chart svg { max-width: 100%; height: auto; }
@media (max-width: 1000px) {
  body { padding: 1rem; }
  table { font-size: .78rem; }
  th, td { padding: .3rem; }
}
details { margin: .75rem 0; }
summary { cursor: pointer; color: #0550ae; }
@media print {
  body { max-width: none; padding: 0; font-size: 11pt; }
  nav, summary { display: none; }
  h2, h3, caption { break-after: avoid; }
  figure, table, tr, .tile, .banner { break-inside: avoid; }
  .scroll, .chart { overflow: visible; }
  table { font-size: 8pt; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
