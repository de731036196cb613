//! Colours and type of the page and of its plots. Text keeps a contrast of at least 4.5 on both
//! backgrounds.

/// Series with different colours; more repeat them.
pub(super) const SERIES: usize = 6;

/// Light and dark.
pub(super) const COLOURS: &str = "\
:root{color-scheme:light dark;--page:#fff;--card:#f7f8fa;--ink:#1b1f24;--soft:#59636e;--grid:#e3e7ec;--rule:#cfd6dd;--band:#eef1f5;\
--warn:#7a4a00;--warn-ground:#fff6e0;--warn-rule:#e8b64c;--bad:#b42318;--good:#1a7f4b;\
--s0:#2563c9;--s1:#c2570c;--s2:#0f8a6a;--s3:#8746b8;--s4:#a3780a;--s5:#b83268}\
@media(prefers-color-scheme:dark){:root{--page:#111418;--card:#191d23;--ink:#e6e9ed;--soft:#9aa5b1;--grid:#2a3038;--rule:#3a424c;--band:#1d2229;\
--warn:#f1d08a;--warn-ground:#2c2410;--warn-rule:#8a6a1f;--bad:#ff8b80;--good:#5fd39a;\
--s0:#6ea8ff;--s1:#ff9d5c;--s2:#45cfa5;--s3:#c695ee;--s4:#e0b84a;--s5:#f583ad}}";

/// Plots.
pub(super) const SVG: &str = "\
text{font:11px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:var(--soft);font-variant-numeric:tabular-nums}\
text.name{fill:var(--ink)}text.head{fill:var(--ink);font-size:12.5px;font-weight:600}text.strong{fill:var(--ink);font-weight:600}text.small{font-size:10px}\
.page{fill:var(--page)}.grid{stroke:var(--grid);stroke-width:1;shape-rendering:crispEdges}.axis{stroke:var(--rule);stroke-width:1;shape-rendering:crispEdges}\
.band{fill:var(--band)}.edge{stroke:var(--rule);stroke-dasharray:2 3;stroke-width:1;shape-rendering:crispEdges}\
.l0,.l1,.l2,.l3,.l4,.l5{fill:none;stroke-width:1.75;stroke-linejoin:round;stroke-linecap:round}.dash{stroke-dasharray:4 3;stroke-width:1.5}\
.l0{stroke:var(--s0)}.l1{stroke:var(--s1)}.l2{stroke:var(--s2)}.l3{stroke:var(--s3)}.l4{stroke:var(--s4)}.l5{stroke:var(--s5)}\
.f0{fill:var(--s0)}.f1{fill:var(--s1)}.f2{fill:var(--s2)}.f3{fill:var(--s3)}.f4{fill:var(--s4)}.f5{fill:var(--s5)}\
.area{fill-opacity:.14}.span{fill-opacity:.30}.tail{stroke-width:1.5;stroke-opacity:.55}";

/// The page around the plots.
pub(super) const PAGE: &str = "\
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\
main{max-width:1120px;margin:0 auto;padding:32px 24px 64px}h1{font-size:28px;line-height:1.2;margin:0 0 4px}h2{font-size:19px;margin:44px 0 12px}h3{font-size:15px;margin:26px 0 8px}\
p{margin:6px 0;max-width:76ch}.soft{color:var(--soft)}.bad{color:var(--bad)}code{font:13px ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}\
.warn{background:var(--warn-ground);border-left:4px solid var(--warn-rule);color:var(--warn);padding:10px 16px;margin:20px 0;border-radius:0 6px 6px 0}.warn ul{margin:4px 0;padding-left:20px}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 18px;margin:16px 0;font-size:14px}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\
.plots{display:flex;flex-wrap:wrap;gap:16px}figure{margin:0;background:var(--card);border:1px solid var(--grid);border-radius:8px;padding:14px 14px 8px;max-width:100%}\
.card .band{fill:var(--band)}svg{display:block;max-width:100%;height:auto}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums;width:100%}\
th,td{padding:5px 10px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}th{color:var(--soft);font-weight:500;border-bottom-color:var(--rule)}\
th:first-child,td:first-child{text-align:left;padding-left:0}td.left{text-align:left}.wrap td{white-space:normal}tr.next td{border-top:1px solid var(--rule)}\
.key{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:7px}.k0{background:var(--s0)}.k1{background:var(--s1)}.k2{background:var(--s2)}.k3{background:var(--s3)}.k4{background:var(--s4)}.k5{background:var(--s5)}\
@media(max-width:640px){main{padding:20px 14px 40px}dl{grid-template-columns:1fr}dd{margin-bottom:6px}}\
@media print{figure{break-inside:avoid}}";
