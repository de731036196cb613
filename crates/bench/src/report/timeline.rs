//! Memory and CPU of one server over time, phases as bands behind them.

use crate::result::{Sample, ServerRun};

use super::svg::{Anchor, Scale, Svg, shortened};
use super::units;

const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const MEMORY: (f64, f64) = (58.0, 150.0);
const CPU: (f64, f64) = (252.0, 90.0);
const HEIGHT: f64 = 376.0;
/// Approximate width of a label's character.
const CHARACTER: f64 = 6.1;
/// Points of a curve: more than are visible.
const POINTS: usize = 480;
/// CPU time comes in hundredths of a second: over less than this a rate is a staircase.
const CPU_SECONDS: f64 = 0.25;

/// The highest values of several servers' plots, so that they can share their scales.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extent {
    bytes: f64,
    cores: f64,
}

impl Extent {
    /// Of all servers.
    pub(super) fn of(servers: &[ServerRun]) -> Self {
        let highest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let phases = servers.iter().flat_map(|server| &server.phases);
        let peaks = phases.filter_map(|phase| phase.peak_bytes).map(|bytes| bytes as f64);
        let of = |server: &ServerRun| -> Vec<f64> {
            let several = several(server);
            server.samples.iter().filter_map(|sample| memory_of(sample, several)).collect()
        };
        let sampled = servers.iter().flat_map(of);
        let cores = servers.iter().flat_map(|server| cores(&server.samples)).map(|(_, cores)| cores);
        Extent { bytes: highest(&mut sampled.chain(peaks)), cores: highest(&mut { cores }) }
    }
}

/// The plot of server number `nth`.
pub(super) fn plot(server: &ServerRun, nth: usize, extent: Extent, width: f64) -> Svg {
    let end =
        server.samples.iter().map(|s| s.at).chain(server.phases.iter().map(|p| p.end)).fold(0.0, f64::max);
    let mut svg = Svg::new(width, HEIGHT, &format!("{}: memory and CPU over time", server.name));
    let x = Scale::linear(end, LEFT, width - LEFT - RIGHT);
    svg.text("head", (0.0, 14.0), Anchor::Start, &shortened(&server.name, 40));
    bands(&mut svg, server, x);
    memory(&mut svg, server, nth, extent, x, width);
    cpu(&mut svg, server, nth, extent, x, width);
    for at in x.ticks() {
        svg.text("", (x.at(at), HEIGHT - 16.0), Anchor::Middle, &time_label(at));
    }
    svg
}

fn time_label(at: f64) -> String {
    if at == 0.0 { "0".into() } else { units::time_tick(at * 1e6) }
}

/// Every other phase has its own background; names where they fit, else numbers where those do.
fn bands(svg: &mut Svg, server: &ServerRun, x: Scale) {
    let (top, bottom) = (MEMORY.0 - 22.0, CPU.0 + CPU.1);
    let mut free = 0.0;
    for (nth, phase) in server.phases.iter().enumerate() {
        let (from, to) = (x.at(phase.begin), x.at(phase.end));
        let class = if nth % 2 == 0 { "band" } else { "none" };
        let tip = format!("{}: {}", phase.name, units::seconds(phase.seconds()));
        if nth % 2 == 0 {
            svg.rect(class, from, top, to - from, bottom - top, &tip);
        }
        svg.line("edge", (from, top), (from, bottom));
        let room = ((to - from) / CHARACTER) as usize;
        let name = phase.name.chars().count();
        let number = (nth + 1).to_string();
        let label = if name <= room {
            phase.name.clone()
        } else if room >= 6 {
            shortened(&phase.name, room)
        } else if room >= number.len() || from > free {
            number
        } else {
            continue;
        };
        let middle = (from + to) / 2.0;
        let half = label.chars().count() as f64 * CHARACTER / 2.0;
        if middle - half >= free {
            free = middle + half + 3.0;
            svg.text("small", (middle, top + 12.0), Anchor::Middle, &label);
        }
    }
}

fn frame(svg: &mut Svg, place: (f64, f64), title: &str, ticks: &[(f64, String)], width: f64) {
    let (top, height) = place;
    svg.text(
        "",
        (LEFT, top - 27.0 + if title.starts_with("CPU") { 20.0 } else { 0.0 }),
        Anchor::Start,
        title,
    );
    for (y, label) in ticks {
        svg.line("grid", (LEFT, *y), (width - RIGHT, *y));
        svg.text("", (LEFT - 7.0, y + 3.8), Anchor::End, label);
    }
    svg.line("axis", (LEFT, top + height), (width - RIGHT, top + height));
}

fn memory(svg: &mut Svg, server: &ServerRun, nth: usize, extent: Extent, x: Scale, width: f64) {
    let (top, height) = MEMORY;
    let y = Scale::linear(extent.bytes * 1.05, top + height, -height);
    let ticks: Vec<_> = y.byte_ticks().into_iter().map(|b| (y.at(b), byte_label(b))).collect();
    let several = several(server);
    let what = if several { "sum of proportional set sizes" } else { "resident set" };
    frame(svg, MEMORY, &format!("memory: {what}; dashed: highest of the phase"), &ticks, width);
    let points =
        thinned(server.samples.iter().filter_map(|s| Some((s.at, memory_of(s, several)?))).collect());
    let points: Vec<_> = points.into_iter().map(|(at, bytes)| (x.at(at), y.at(bytes))).collect();
    svg.path(&format!("f{nth} area"), &points, Some(top + height));
    svg.path(&format!("l{nth}"), &points, None);
    for phase in &server.phases {
        let Some(peak) = phase.peak_bytes else { continue };
        let height = y.at(peak as f64);
        svg.line(&format!("l{nth} dash"), (x.at(phase.begin), height), (x.at(phase.end), height));
    }
}

fn several(server: &ServerRun) -> bool {
    server.samples.iter().any(|sample| sample.processes > 1)
}

/// Shared pages of several processes count once only in proportional set sizes.
fn memory_of(sample: &Sample, several: bool) -> Option<f64> {
    if several { sample.pss_bytes.map(|bytes| bytes as f64) } else { Some(sample.rss_bytes as f64) }
}

fn cpu(svg: &mut Svg, server: &ServerRun, nth: usize, extent: Extent, x: Scale, width: f64) {
    let (top, height) = CPU;
    let y = Scale::linear((extent.cores * 1.1).max(0.2), top + height, -height);
    let ticks: Vec<_> = y.ticks().into_iter().map(|c| (y.at(c), units::number_tick(c))).collect();
    frame(svg, CPU, "CPU: cores in use", &ticks, width);
    let mut steps = Vec::new();
    let mut from = server.samples.first().map_or(0.0, |first| first.at);
    for (to, cores) in cores(&server.samples) {
        steps.extend([(x.at(from), y.at(cores)), (x.at(to), y.at(cores))]);
        from = to;
    }
    svg.path(&format!("f{nth} area"), &steps, Some(top + height));
    svg.path(&format!("l{nth}"), &steps, None);
}

fn byte_label(bytes: f64) -> String {
    if bytes == 0.0 { "0".into() } else { units::bytes_tick(bytes) }
}

/// Cores in use up to some of the samples.
fn cores(samples: &[Sample]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return Vec::new() };
    let step = ((last.at - first.at) / (POINTS / 2) as f64).max(CPU_SECONDS);
    let (mut out, mut from) = (Vec::new(), first);
    for sample in samples {
        let seconds = sample.at - from.at;
        if seconds >= step || (std::ptr::eq(sample, last) && seconds > 0.0) {
            out.push((sample.at, ((sample.cpu_seconds - from.cpu_seconds) / seconds).max(0.0)));
            from = sample;
        }
    }
    out
}

/// Reduces points to a distinguishable number, keeping the highest of those that coincide.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let together = points.len().div_ceil(POINTS).max(1);
    let highest = |some: &[(f64, f64)]| some.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    points.chunks(together).filter_map(highest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: f64, cpu_seconds: f64) -> Sample {
        Sample { at, cpu_seconds, processes: 1, ..Sample::default() }
    }

    #[test]
    fn cores_are_cpu_time_by_time() {
        let samples =
            [sample(0.0, 5.0), sample(0.1, 5.0), sample(0.5, 5.5), sample(1.0, 6.5), sample(1.1, 6.5)];
        let cores = cores(&samples);
        assert_eq!(cores.len(), 3);
        assert!((cores[0].1 - 1.0).abs() < 1e-9 && (cores[1].1 - 2.0).abs() < 1e-9 && cores[2].1 == 0.0);
    }

    #[test]
    fn peaks_survive_thinning() {
        let points: Vec<_> =
            (0..10_000).map(|n| (f64::from(n), if n == 7_777 { 9.0 } else { 1.0 })).collect();
        let thin = thinned(points);
        assert!(thin.len() <= POINTS && thin.contains(&(7777.0, 9.0)));
    }
}
