//! The open calls of a server, so that it can end them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

/// Every open call, with what wakes its task.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    cut: AtomicBool,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// `None` where a place is free, or its call was never polled.
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

/// One call on the list; it leaves when dropped.
#[derive(Debug)]
pub struct Listed {
    streams: Streams,
    place: usize,
    /// The waker that is listed.
    waker: Option<Waker>,
}

impl Streams {
    /// Lists a call.
    #[must_use]
    pub fn list(&self) -> Listed {
        let mut table = self.shared.table.lock();
        let place = table.free.pop().unwrap_or_else(|| {
            table.wakers.push(None);
            table.wakers.len() - 1
        });
        drop(table);
        Listed { streams: self.clone(), place, waker: None }
    }

    /// How many calls are open.
    #[must_use]
    pub fn open(&self) -> usize {
        let table = self.shared.table.lock();
        table.wakers.len() - table.free.len()
    }

    /// Ends all calls: each is woken, and finds [`Listed::is_cut`].
    pub fn cut(&self) {
        self.shared.cut.store(true, Ordering::SeqCst);
        let wakers: Vec<Waker> = self.shared.table.lock().wakers.iter_mut().filter_map(Option::take).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether all calls were told to end.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.shared.cut.load(Ordering::Relaxed)
    }
}

impl Listed {
    /// Whether this call must end now.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.streams.is_cut()
    }

    /// Says which task to wake. Costs next to nothing unless the task is another one than before.
    pub fn wake_by(&mut self, waker: &Waker) {
        if self.waker.as_ref().is_none_or(|listed| !listed.will_wake(waker)) {
            self.waker = Some(waker.clone());
            self.streams.shared.table.lock().wakers[self.place] = Some(waker.clone());
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut table = self.streams.shared.table.lock();
        table.wakers[self.place] = None;
        table.free.push(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_cut_wakes_every_open_call_once_and_no_other() {
        let streams = Streams::default();
        let counts: Vec<Arc<Count>> = (0..3).map(|_| Arc::default()).collect();
        let mut listed: Vec<Listed> = counts.iter().map(|_| streams.list()).collect();
        for (call, count) in listed.iter_mut().zip(&counts) {
            call.wake_by(&Arc::clone(count).into());
            call.wake_by(&Arc::clone(count).into());
        }
        drop(listed.remove(1));
        assert_eq!(streams.open(), 2);
        streams.cut();
        let woken: Vec<usize> = counts.iter().map(|c| c.0.load(Ordering::SeqCst)).collect();
        assert_eq!(woken, [1, 0, 1]);
        assert!(listed[0].is_cut());
        drop(listed);
        assert_eq!(streams.open(), 0);
    }
}
