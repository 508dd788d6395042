//! A run at a glance: passes one after the other, whatever their clocks, and nothing lost.

use analysis::{Course, Extents};
use record::{Operation, Phase, Row};
use units::{Duration, Instant, Ratio};

fn at(micros: u64) -> Instant {
    Instant::START + Duration::micros(micros)
}

/// Two passes on one clock that begins anew: each has a start-up of 100 ms and 900 ms that count, a request of 4 KiB
/// each millisecond.
fn rows() -> Vec<Row> {
    let pass = |pass: u16| {
        (0..1000).map(move |number: u64| {
            let phase = if number < 100 { Phase::StartUp } else { Phase::Measure };
            let operation = if number.is_multiple_of(4) { Operation::Write } else { Operation::Read };
            let (due, took) = (5_000_000 + number * 1000, 200 + number % 100);
            let (submitted, completed) = (at(due + 10), at(due + took));
            let times = Row { intended: at(due), submitted, completed, ..Row::new(operation, phase) };
            Row { length: 4096, pass, device: u16::from(!number.is_multiple_of(2)), ..times }
        })
    };
    pass(0).chain(pass(1)).collect()
}

fn course(rows: &[Row]) -> Course {
    let mut extents = Extents::default();
    rows.chunks(7).for_each(|some| extents.add(some));
    let mut course = extents.course(2);
    rows.chunks(11).for_each(|some| course.add(some));
    course
}

#[test]
fn passes_follow_each_other_and_say_what_counted() {
    let course = course(&rows());
    // The last request of a pass is due after 999 ms and takes 299 us.
    let pass = Duration::micros(999_299);
    assert_eq!(course.length(), pass * 2);
    assert_eq!(course.passes[0].whole, Duration::ZERO..pass);
    assert_eq!(course.passes[0].counted, Duration::millis(100)..Duration::millis(999));
    assert_eq!(course.passes[1].whole, pass..pass * 2);
    assert_eq!(course.passes[1].counted.start, pass + Duration::millis(100));
    // 2 s in 160 intervals are 12.5 ms, so 20.
    assert_eq!(course.series.interval(), Duration::millis(20));
}

#[test]
fn every_request_is_in_one_interval_and_every_counted_one_in_one_distribution() {
    let course = course(&rows());
    let total: u64 = (0..course.series.len()).map(|interval| course.series.total(interval).requests).sum();
    assert_eq!(total, 2000);
    let ten = course.series.total(10);
    assert_eq!((ten.requests, ten.bytes.get()), (20, 20 * 4096));
    let names: Vec<_> = course.responses.iter().map(|(operation, times)| (operation.name(), times.count())).collect();
    assert_eq!(names, [("read", 1350), ("write", 450)]);
    let longest = course.responses[0].1.quantile(Ratio::ONE).unwrap();
    assert_eq!(longest, Duration::micros(299));
}

#[test]
fn one_request_is_a_course_and_none_is_none() {
    let one = course(&rows()[..1]);
    // 200 us in intervals of 2 us, and it ends where one more begins. It did not count.
    assert_eq!((one.series.len(), one.passes.len(), one.responses.len()), (101, 1, 0));
    let none = course(&[]);
    assert_eq!((none.length(), none.series.len()), (Duration::ZERO, 0));
}
