#include "workload/report/html_style.h"

namespace stoker::bench {

std::string_view HtmlStyle() {
  return R"css(
:root{color-scheme:light dark;
--bg:#f6f7f9;--card:#fff;--ink:#16202c;--soft:#566273;--line:#dce1e8;--grid:#e6eaef;--band:#eef1f5;
--good:#11734b;--good-bg:#e2f4ea;--bad:#b3261e;--bad-bg:#fce8e6;--warn:#8a5a00;--warn-bg:#fdf1d8;--info:#2456b8;--info-bg:#e6eefb;
--c0:#2563c9;--c1:#c2610c;--c2:#0f7d5c;--c3:#a21caf;--c4:#5b6b7f;--c5:#b91c1c}
@media(prefers-color-scheme:dark){:root{
--bg:#0f141a;--card:#171e27;--ink:#e7ecf2;--soft:#9fadbd;--line:#2b3643;--grid:#263140;--band:#1c2530;
--good:#6fdba6;--good-bg:#12301f;--bad:#ff9d94;--bad-bg:#3a1715;--warn:#f3c969;--warn-bg:#33270c;--info:#93b9ff;--info-bg:#152540;
--c0:#6ea8ff;--c1:#ffb05c;--c2:#4fd6a8;--c3:#e88bf3;--c4:#a9b7c7;--c5:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;
font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
main,header,footer{max-width:76rem;margin:0 auto;padding:0 1rem}
header{padding-top:1.75rem}
h1{font-size:1.6rem;line-height:1.2;margin:0 0 .25rem;letter-spacing:-.01em}
h2{font-size:1.25rem;margin:2.25rem 0 .75rem}
h3{font-size:1.05rem;margin:0}
h4{font-size:.95rem;margin:0}
h4 small,.soft{color:var(--soft);font-weight:400}
p{margin:.25rem 0}
code{font:.9em ui-monospace,"DejaVu Sans Mono",monospace}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1rem;margin:0 0 1rem;
max-width:100%;min-width:0}
.verdict{border-left:6px solid var(--tone)}
.verdict>p.lead{font-size:1.05rem;margin:.5rem 0}
.badge{display:inline-block;padding:.1rem .6rem;border-radius:999px;font-weight:700;font-size:.85rem;letter-spacing:.03em;
color:var(--tone);background:var(--tone-bg);white-space:nowrap}
.good{--tone:var(--good);--tone-bg:var(--good-bg)}.bad{--tone:var(--bad);--tone-bg:var(--bad-bg)}
.warn{--tone:var(--warn);--tone-bg:var(--warn-bg)}.info{--tone:var(--info);--tone-bg:var(--info-bg)}
ul.findings{list-style:none;margin:.75rem 0 0;padding:0}
ul.findings li{padding:.4rem 0 .4rem .75rem;border-left:3px solid var(--tone);margin:.4rem 0}
ul.findings b{color:var(--tone)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;margin:1rem 0 0}
.tile{background:var(--bg);border:1px solid var(--line);border-radius:10px;padding:.6rem .75rem}
.tile dt{color:var(--soft);font-size:.8rem}
.tile dd{margin:0;font-size:1.35rem;font-weight:650;line-height:1.25}
.tile dd small{display:block;font-size:.8rem;font-weight:400;color:var(--soft)}
dl.tiles{margin-bottom:0}
.charts{display:grid;grid-template-columns:minmax(0,1fr);gap:1rem}
@media(min-width:60rem){.charts{grid-template-columns:repeat(2,minmax(0,1fr))}.charts>figure:last-child:nth-child(odd){grid-column:1/-1}}
.charts,.charts+p,.below{margin:1rem 0}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1rem;min-width:0}
figcaption p{color:var(--soft);font-size:.85rem;margin:.1rem 0 .25rem}
.plot{position:relative;height:14rem;margin:1.9rem .4rem 1.7rem 4.6rem}
.plot>svg{width:100%;height:100%;display:block;overflow:visible}
.ylabels span,.xlabels span,.bandlabels span{position:absolute;font-size:.75rem;color:var(--soft);white-space:nowrap;line-height:1}
.ylabels span{right:calc(100% + .5rem);transform:translateY(-50%)}
.xlabels span{top:calc(100% + .5rem);transform:translateX(-50%)}
.bandlabels span{bottom:calc(100% + .3rem);transform:translateX(-50%)}
svg path{fill:none;vector-effect:non-scaling-stroke}
.grid{stroke:var(--grid);stroke-width:1}
.band{fill:var(--band)}
.line{stroke-width:2;stroke-linejoin:round}
.dots{stroke-width:8;stroke-linecap:round}
.range{stroke:var(--soft);stroke-width:6;stroke-linecap:round;opacity:.35}
.mark{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:2 4}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}
.line.s1{stroke-dasharray:7 3}.line.s2{stroke-dasharray:3 3}.line.s3{stroke-dasharray:10 3 2 3}.line.s4{stroke-dasharray:1 4}.line.s5{stroke-dasharray:12 4}
svg path.area{stroke:none;opacity:.22}
.area.s0{fill:var(--c0)}.area.s1{fill:var(--c1)}.area.s2{fill:var(--c2)}.area.s3{fill:var(--c3)}.area.s4{fill:var(--c4)}.area.s5{fill:var(--c5)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:0 0 .5rem;padding:0;font-size:.85rem}
.legend svg{width:1.5rem;height:.5rem;margin-right:.4rem;vertical-align:middle;overflow:visible}
.scroll{overflow-x:auto;max-width:100%}
.data .scroll{max-height:20rem;overflow-y:auto}
table{border-collapse:collapse;width:100%;font-size:.875rem;overflow-wrap:normal}
caption{text-align:left;color:var(--soft);font-size:.85rem;padding-bottom:.25rem}
th,td{padding:.35rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:top}
th:first-child,td:first-child{text-align:left;padding-left:0}
thead th{color:var(--soft);font-weight:600;white-space:normal;vertical-align:bottom}
tbody th{font-weight:500}
.wide td,.wide th{white-space:normal;text-align:left;overflow-wrap:anywhere}
.wide th{min-width:11rem}
.meter{display:block;height:.4rem;min-width:6rem;border-radius:4px;background:var(--grid);margin-top:.2rem;overflow:hidden}
.meter i{display:block;height:100%;background:var(--c0);border-radius:4px}
.heat td,.heat thead th:not(:first-child){text-align:center}
.heat td{color:var(--ink)}
.h0{background:var(--bad-bg)}.h1{background:var(--warn-bg)}.h2{background:var(--good-bg)}
details{margin:.25rem 0}
summary{cursor:pointer;color:var(--info);font-size:.9rem;padding:.25rem 0}
details.run{margin:0 0 1rem}
details.run>summary{font-size:1.05rem;font-weight:600;color:var(--ink);background:var(--card);border:1px solid var(--line);
border-radius:12px;padding:.75rem 1rem;margin-bottom:1rem}
details.run>summary .soft{font-size:.9rem}
summary:focus-visible,.scroll:focus-visible{outline:2px solid var(--info);outline-offset:2px}
footer{color:var(--soft);font-size:.85rem;padding:1.5rem 1rem 2rem}
@media(max-width:30rem){h1{font-size:1.35rem}.plot{height:12rem;margin-left:3.9rem}.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}
.tile dd{font-size:1.15rem}}
@media print{body{background:#fff}.card,figure{break-inside:avoid}}
)css";
}

}  // namespace stoker::bench
