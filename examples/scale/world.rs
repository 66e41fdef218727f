//! The world that is simulated: callers, isolates, objects, and the way between them. The order in which a call is decided
//! is that of `src/limiter/admit.rs`; each decision is the real code's.

use crate::isolate::Isolate;
use crate::object::{whole_ms, Object, SetAlarm};
use crate::prices::Usage;
use crate::random::Random;
use crate::setup::Setup;
use crate::shards::shard_of;
use crate::traffic::Shape;
use sluice::limiter::answer::Answer;
use sluice::limiter::policy::{Policy, SECOND, TOKEN};
use sluice::limiter::question::Question;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Assumed: the way between an isolate and an object.
pub const ONE_WAY_US: u64 = 10_000;

/// An instant to begin at: the clock of the platform counts from 1970.
const BEGIN: u64 = 1_796_000_000 * SECOND;

/// After how long without a message an object leaves memory.
const IN_MEMORY_US: u64 = 10 * SECOND;

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub usage: Usage,
    /// Calls that ran.
    pub ran: u64,
    /// Calls that were refused without a question.
    pub remembered: u64,
    /// Calls that the flood gate refused.
    pub gated: u64,
    /// Questions to shared objects.
    pub shared_questions: u64,
    /// Questions to shared objects that they couldn't answer.
    pub shared_failures: u64,
    /// The most objects that were in memory at once, and that had something stored.
    pub most_in_memory: u64,
    pub most_stored: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    caller: usize,
    isolate: usize,
    sent: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Call { caller: usize },
    Ask { call: Call, whom: usize },
    Told { call: Call, whom: usize, admitted: bool, debt: u64, wait: u64 },
    Failed { call: Call, whom: usize },
    Alarm { whom: usize, number: u32 },
}

struct World<'a> {
    setup: &'a Setup,
    random: Random,
    names: Vec<String>,
    isolates: Vec<Isolate>,
    /// The callers', then the shared ones.
    objects: Vec<Object>,
    gates: Vec<(u64, u64)>,
    made: Vec<u64>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    tally: Tally,
    stored: u64,
    in_memory: (u64, u64),
}

/// Runs it.
pub fn run(setup: &Setup) -> Tally {
    let shards = setup.shared.as_ref().map_or(0, |shared| shared.shards);
    let mut world = World {
        setup,
        random: Random::new(20_261_130),
        names: (0..setup.callers).map(|caller| format!("address:{caller}")).collect(),
        isolates: (0..setup.isolates).map(|_| Isolate::new(setup)).collect(),
        objects: (0..setup.callers + shards).map(|_| Object::default()).collect(),
        gates: vec![(0, 0); setup.callers],
        made: vec![0; setup.callers],
        events: BinaryHeap::new(),
        order: 0,
        tally: Tally::default(),
        stored: 0,
        in_memory: (0, 0),
    };
    for caller in 0..setup.callers {
        if let Some(at) = setup.shape.first(caller, &mut world.random) {
            world.at(BEGIN + at, Event::Call { caller });
        }
    }
    world.run();
    world.tally
}

impl World<'_> {
    fn at(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn run(&mut self) {
        let (count_from, until) = (BEGIN + self.setup.count_from_s * SECOND, BEGIN + self.setup.until_s * SECOND);
        let (mut counts, mut last) = (false, BEGIN);
        while let Some(Reverse((now, _, event))) = self.events.pop().filter(|Reverse((now, ..))| *now < until) {
            if !counts && now >= count_from {
                (counts, self.tally, last) = (true, Tally { most_stored: self.stored, ..Tally::default() }, now);
            }
            self.tally.usage.stored_seconds += self.stored as f64 * (now - last) as f64 / SECOND as f64;
            last = now;
            match event {
                Event::Call { caller } => self.call(caller, now),
                Event::Ask { call, whom } => self.ask(call, whom, now),
                Event::Told { call, whom, admitted, debt, wait } => {
                    let answer = Answer { admitted, debt, wait, ..Answer::default() };
                    self.told(call, whom, &answer, now);
                }
                Event::Failed { call, whom } => self.failed(call, whom, now),
                Event::Alarm { whom, number } => {
                    self.with_object(whom, now, |object, usage| ((), object.alarm(number, now, usage)));
                }
            }
        }
    }

    /// Has an object do something, sets the alarm that comes of it, and sees what is stored then.
    fn with_object<T>(
        &mut self,
        whom: usize,
        now: u64,
        does: impl FnOnce(&mut Object, &mut Usage) -> (T, SetAlarm),
    ) -> T {
        let object = &mut self.objects[whom];
        let was_stored = object.is_stored();
        let (result, alarm) = does(object, &mut self.tally.usage);
        self.stored = self.stored + u64::from(object.is_stored()) - u64::from(was_stored);
        let period = now / IN_MEMORY_US;
        if self.in_memory.0 != period {
            self.in_memory = (period, 0);
        }
        if object.touched != period {
            object.touched = period;
            self.in_memory.1 += 1;
        }
        self.tally.most_stored = self.tally.most_stored.max(self.stored);
        self.tally.most_in_memory = self.tally.most_in_memory.max(self.in_memory.1);
        if let Some((at, number)) = alarm {
            self.at(at.max(now) + self.setup.alarm_later_us, Event::Alarm { whom, number });
        }
        result
    }

    fn call(&mut self, caller: usize, now: u64) {
        self.tally.usage.calls += 1;
        self.made[caller] += 1;
        if let Some((after, ends_row)) = self.setup.shape.next(self.made[caller], &mut self.random) {
            if ends_row {
                self.made[caller] = 0;
            }
            let next = match self.setup.shape {
                Shape::Crowd { .. } => self.random.below(self.setup.callers as u64) as usize,
                _ => caller,
            };
            self.at(now + after, Event::Call { caller: next });
        }
        if let Some(most) = self.setup.gate_per_minute {
            let minute = now / (60 * SECOND);
            let (since, passed) = &mut self.gates[caller];
            if *since != minute {
                (*since, *passed) = (minute, 0);
            }
            *passed += 1;
            if *passed > most {
                self.tally.gated += 1;
                return;
            }
        }
        let isolate = self.random.below(self.setup.isolates as u64) as usize;
        let call = Call { caller, isolate, sent: now };
        let (own, clock) = (self.setup.own, whole_ms(now));
        let own_wait = self.isolates[isolate].refuses(&self.names[caller], own, TOKEN, clock);
        if let Some(wait) = own_wait.filter(|_| self.setup.remembers) {
            self.tally.remembered += 1;
            return self.over(call, Some(wait), now);
        }
        let Some(shared) = &self.setup.shared else {
            return self.at(now + ONE_WAY_US, Event::Ask { call, whom: caller });
        };
        let shard = shard_of(caller, shared.shards);
        if let Some(wait) = self.isolates[isolate].rules_shared(self.setup, shard, TOKEN, clock) {
            self.tally.remembered += u64::from(wait.is_some());
            return self.shared_ruled(call, wait, now);
        }
        self.at(now + ONE_WAY_US, Event::Ask { call, whom: self.setup.callers + shard });
    }

    fn policy_of(&self, whom: usize) -> Policy {
        self.setup.shared.as_ref().filter(|_| whom >= self.setup.callers).map_or(self.setup.own, |shared| shared.policy)
    }

    fn ask(&mut self, call: Call, whom: usize, now: u64) {
        let question = Question::new(self.policy_of(whom), TOKEN);
        self.tally.shared_questions += u64::from(whom >= self.setup.callers);
        let answered = self.with_object(whom, now, |object, usage| match object.ask(&question, now, usage) {
            Some((answer, at, alarm)) => (Some((answer, at)), alarm),
            None => (None, None),
        });
        match answered {
            Some((Answer { admitted, debt, wait, .. }, at)) => {
                self.at(at + ONE_WAY_US, Event::Told { call, whom, admitted, debt, wait });
            }
            None => self.at(now + ONE_WAY_US, Event::Failed { call, whom }),
        }
    }

    fn told(&mut self, call: Call, whom: usize, answer: &Answer, now: u64) {
        let heard = (whole_ms(call.sent), whole_ms(now));
        let isolate = &mut self.isolates[call.isolate];
        if let Some(shard) = whom.checked_sub(self.setup.callers) {
            isolate.hear_shared(self.setup, shard, answer, heard);
            self.shared_ruled(call, (!answer.admitted).then_some(answer.wait), now);
        } else {
            isolate.hear(&self.names[whom], answer, heard, self.setup.own);
            // What the shared bucket gave would go back then. No load that is simulated here comes to that.
            assert!(answer.admitted || self.setup.shared.is_none());
            self.over(call, (!answer.admitted).then_some(answer.wait), now);
        }
    }

    /// An overloaded object: the isolate's own bucket decides.
    fn failed(&mut self, call: Call, whom: usize, now: u64) {
        let (policy, clock) = (self.policy_of(whom), whole_ms(now));
        let isolate = &mut self.isolates[call.isolate];
        match (whom.checked_sub(self.setup.callers), &self.setup.shared) {
            (Some(shard), Some(shared)) => {
                self.tally.shared_failures += 1;
                isolate.hear_nothing(self.setup, shard, (whole_ms(call.sent), clock));
                let wait = isolate.insure(&shared.names[shard], policy, TOKEN, clock);
                self.shared_ruled(call, wait, now);
            }
            _ => {
                let wait = isolate.insure(&self.names[whom], policy, TOKEN, clock);
                self.over(call, wait, now);
            }
        }
    }

    /// The shared bucket is past; the caller's own is next, if that admitted it.
    fn shared_ruled(&mut self, call: Call, wait: Option<u64>, now: u64) {
        match wait {
            None => self.at(now + ONE_WAY_US, Event::Ask { call: Call { sent: now, ..call }, whom: call.caller }),
            Some(_) => self.over(call, wait, now),
        }
    }

    /// A call is answered, and counted.
    fn over(&mut self, call: Call, wait: Option<u64>, now: u64) {
        self.tally.ran += u64::from(wait.is_none());
        if self.isolates[call.isolate].count(now) {
            let usage = &mut self.tally.usage;
            (usage.counts, usage.rows_read, usage.rows_written) =
                (usage.counts + 1, usage.rows_read + 1, usage.rows_written + 1);
        }
        if let Some(after) = self.setup.shape.after_answer(wait) {
            self.at(now + after, Event::Call { caller: call.caller });
        }
    }
}
