//! What Cloudflare bills, what it includes, and the few figures that had to be assumed. All prices are those of the paid
//! plan beyond what it includes.
//!
//! <https://developers.cloudflare.com/durable-objects/platform/pricing/>,
//! <https://developers.cloudflare.com/workers/platform/pricing/> (autumn 2026)

/// Dollars for a million requests to the Worker.
const WORKER_REQUESTS: f64 = 0.30;
/// Dollars for a million milliseconds of the Worker's CPU.
const WORKER_CPU_MS: f64 = 0.02;
/// Dollars for a million requests to objects: questions, what is given back, counts, and alarms that go off.
const OBJECT_REQUESTS: f64 = 0.15;
/// Dollars for a million rows that are read.
const ROWS_READ: f64 = 0.001;
/// Dollars for a million rows that are written. An alarm that is set is one, and so is one that is deleted.
const ROWS_WRITTEN: f64 = 1.00;
/// Dollars for a million GB-s of an object's duration.
const GB_SECONDS: f64 = 12.50;
/// Dollars for a GB that is stored for a month.
const GB_MONTH: f64 = 0.20;
const MONTH_SECONDS: f64 = 30.0 * 86_400.0;

/// Assumed: CPU of the Worker for one call.
pub const CPU_MS_PER_CALL: f64 = 1.0;
/// Assumed: for how long an object is at work on one request, waiting for its storage included.
pub const OBJECT_MS_PER_REQUEST: f64 = 5.0;
/// What an object's memory is billed as.
const OBJECT_GB: f64 = 0.128;
/// What a database takes that has hardly anything in it. Ours has one row of about a hundred bytes.
pub const STORED_GB_PER_OBJECT: f64 = 12e-6;

/// What the free plan allows in a day: requests to the Worker.
const FREE_WORKER_REQUESTS: f64 = 100_000.0;
const FREE_OBJECT_REQUESTS: f64 = 100_000.0;
const FREE_ROWS_READ: f64 = 5_000_000.0;
const FREE_ROWS_WRITTEN: f64 = 100_000.0;
const FREE_GB_SECONDS: f64 = 13_000.0;

/// What was used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Requests to the Worker.
    pub calls: u64,
    /// Questions to objects.
    pub questions: u64,
    /// Alarms that went off.
    pub alarms: u64,
    /// Counts that were sent.
    pub counts: u64,
    /// Rows that were read.
    pub rows_read: u64,
    /// Rows that were written.
    pub rows_written: u64,
    /// Objects that had something stored, times the seconds for which they had.
    pub stored_seconds: f64,
}

impl Usage {
    fn object_requests(&self) -> f64 {
        (self.questions + self.alarms + self.counts) as f64
    }

    fn gb_seconds(&self) -> f64 {
        self.object_requests() * OBJECT_MS_PER_REQUEST / 1_000.0 * OBJECT_GB
    }

    /// So many of something for each call.
    pub fn per_call(&self, amount: u64) -> f64 {
        amount as f64 / self.calls.max(1) as f64
    }

    /// GB-s for a million calls.
    pub fn gb_seconds_per_million(&self) -> f64 {
        self.gb_seconds() / self.calls.max(1) as f64 * 1e6
    }

    /// Dollars for a million calls: what the limiter takes.
    pub fn limiter_dollars(&self) -> f64 {
        let stored = self.stored_seconds * STORED_GB_PER_OBJECT / MONTH_SECONDS * GB_MONTH * 1e6;
        let dollars = self.object_requests() * OBJECT_REQUESTS
            + self.rows_read as f64 * ROWS_READ
            + self.rows_written as f64 * ROWS_WRITTEN
            + self.gb_seconds() * GB_SECONDS
            + stored;
        dollars / self.calls.max(1) as f64
    }

    /// Dollars for a million calls: the Worker itself.
    pub fn worker_dollars() -> f64 {
        WORKER_REQUESTS + CPU_MS_PER_CALL * WORKER_CPU_MS
    }

    /// Calls that the free plan carries in a day, and what is used up first.
    pub fn free_calls(&self) -> (f64, &'static str) {
        let calls = self.calls.max(1) as f64;
        let limits = [
            (FREE_WORKER_REQUESTS, "requests to the Worker", calls),
            (FREE_OBJECT_REQUESTS, "requests to objects", self.object_requests()),
            (FREE_ROWS_READ, "rows read", self.rows_read as f64),
            (FREE_ROWS_WRITTEN, "rows written", self.rows_written as f64),
            (FREE_GB_SECONDS, "duration", self.gb_seconds()),
        ];
        let carried = limits.map(|(limit, what, used)| (limit * calls / used.max(1e-9), what));
        carried.into_iter().fold((f64::INFINITY, ""), |least, one| if one.0 < least.0 { one } else { least })
    }
}

/// Dollars a month for so many objects that have something stored all the time.
pub fn storage_dollars_per_month(objects: f64) -> f64 {
    objects * STORED_GB_PER_OBJECT * GB_MONTH
}
