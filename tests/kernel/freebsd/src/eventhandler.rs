//! Event handler lists: `eventhandler_register(9)` (`sys/kern/subr_eventhandler.c`).
//!
//! As on FreeBSD, a handler can be running on other CPUs when it is deregistered, and it can register and deregister other
//! handlers. [`List::deregister`] does not wait for running handlers: the caller waits until [`List::is_gone`] returns true.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use spin::Mutex;

/// A registered handler's number, never 0 and never used again.
pub type Tag = usize;

/// A handler as it was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handler {
    /// The argument of [`List::deregister`].
    pub tag: Tag,
    /// The function's address.
    pub function: usize,
    /// Its first argument.
    pub argument: usize,
    /// Low numbers are called first.
    pub priority: i32,
}

impl Handler {
    /// The key that lists are sorted by; tags increase.
    fn key(&self) -> (i32, Tag) {
        (self.priority, self.tag)
    }
}

#[derive(Debug, Default)]
struct State {
    /// Sorted by priority; handlers of equal priority in order of registration.
    handlers: Vec<Handler>,
    /// The number of invocations that have not returned.
    running: usize,
    /// The deregistered handlers that are removed when `running` becomes 0 (`EHE_DEAD_PRIORITY`).
    dead: Vec<Tag>,
}

/// The handlers of one event.
#[derive(Debug)]
pub struct List {
    name: String,
    state: Mutex<State>,
}

/// All events that have been looked up, with their handlers.
#[derive(Debug)]
pub struct Lists {
    /// Never freed: modules hold pointers to them.
    lists: Mutex<Vec<&'static List>>,
    last: Mutex<Tag>,
}

impl Default for Lists {
    fn default() -> Self {
        Self::new()
    }
}

impl Lists {
    /// Creates lists without events.
    pub const fn new() -> Self {
        Self { lists: Mutex::new(Vec::new()), last: Mutex::new(0) }
    }

    /// Returns the list of an event, if the event exists.
    pub fn find(&self, name: &str) -> Option<&'static List> {
        self.lists.lock().iter().find(|list| list.name == name).copied()
    }

    /// Returns the list of an event; creates the list if it does not exist.
    pub fn find_or_create(&self, name: &str) -> &'static List {
        let mut lists = self.lists.lock();
        if let Some(list) = lists.iter().find(|list| list.name == name) {
            return list;
        }
        let list = Box::leak(Box::new(List { name: name.to_string(), state: Mutex::default() }));
        lists.push(list);
        list
    }

    /// Adds a handler to an event; creates the event if it does not exist. Returns the handler's tag.
    pub fn register(&self, name: &str, function: usize, argument: usize, priority: i32) -> Tag {
        self.register_in(self.find_or_create(name), function, argument, priority)
    }

    /// Adds a handler to a list. Returns the handler's tag.
    pub fn register_in(&self, list: &List, function: usize, argument: usize, priority: i32) -> Tag {
        let tag = {
            let mut last = self.last.lock();
            *last += 1;
            *last
        };
        let mut state = list.state.lock();
        let at = state.handlers.partition_point(|other| other.priority <= priority);
        state.handlers.insert(at, Handler { tag, function, argument, priority });
        tag
    }
}

impl List {
    /// Returns the name of the event.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls `call` for every handler in order, skipping those that are deregistered meanwhile.
    pub fn invoke(&self, mut call: impl FnMut(&Handler)) {
        self.state.lock().running += 1;
        let mut last = None;
        loop {
            let next = {
                let state = self.state.lock();
                let mut rest = state.handlers.iter().filter(|handler| Some(handler.key()) > last);
                rest.find(|handler| !state.dead.contains(&handler.tag)).copied()
            };
            let Some(handler) = next else { break };
            last = Some(handler.key());
            call(&handler);
        }
        let mut state = self.state.lock();
        state.running -= 1;
        state.prune();
    }

    /// Removes a handler; returns whether it was registered. No new call begins after this returns, but a call can still be
    /// running: see [`is_gone`](Self::is_gone).
    pub fn deregister(&self, tag: Tag) -> bool {
        let mut state = self.state.lock();
        let known = state.handlers.iter().any(|handler| handler.tag == tag);
        if !known || state.dead.contains(&tag) {
            return false;
        }
        state.dead.push(tag);
        state.prune();
        true
    }

    /// Removes all handlers; returns their number.
    pub fn deregister_all(&self) -> usize {
        let mut state = self.state.lock();
        let live: Vec<Tag> = state
            .handlers
            .iter()
            .map(|handler| handler.tag)
            .filter(|tag| !state.dead.contains(tag))
            .collect();
        state.dead.extend(&live);
        state.prune();
        live.len()
    }

    /// Returns whether a handler that was deregistered cannot be running any more.
    pub fn is_gone(&self, tag: Tag) -> bool {
        !self.state.lock().dead.contains(&tag)
    }

    /// Returns whether nothing that was deregistered can be running any more.
    pub fn is_settled(&self) -> bool {
        self.state.lock().dead.is_empty()
    }
}

impl State {
    /// Removes the dead handlers if no invocation is running.
    fn prune(&mut self) {
        if self.running == 0 {
            let dead = core::mem::take(&mut self.dead);
            self.handlers.retain(|handler| !dead.contains(&handler.tag));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(list: &List) -> Vec<usize> {
        let mut seen = Vec::new();
        list.invoke(|handler| seen.push(handler.function));
        seen
    }

    #[test]
    fn handlers_run_by_priority_then_by_age() {
        let lists = Lists::new();
        lists.register("process_exec", 1, 0, 10_000);
        lists.register("process_exec", 2, 0, 0);
        lists.register("process_exec", 3, 0, 20_000);
        lists.register("process_exec", 4, 0, 10_000);
        lists.register("process_exit", 5, 0, 0);
        assert_eq!(functions(lists.find("process_exec").unwrap()), [2, 1, 4, 3]);
        assert!(lists.find("nosuch").is_none());
    }

    #[test]
    fn what_is_deregistered_is_not_called_and_its_tag_is_used_up() {
        let lists = Lists::new();
        let first = lists.register("event", 1, 0, 0);
        let second = lists.register("event", 2, 0, 0);
        let list = lists.find("event").unwrap();
        assert!(list.deregister(first));
        assert!(!list.deregister(first));
        assert!(!list.deregister(second + 1));
        assert_eq!(functions(list), [2]);
        assert_ne!(lists.register("event", 1, 0, 0), first);
        assert_eq!(list.deregister_all(), 2);
        assert_eq!(functions(list), []);
    }

    #[test]
    fn a_running_handler_is_gone_only_when_it_has_returned() {
        let lists = Lists::new();
        let first = lists.register("event", 1, 0, 0);
        let second = lists.register("event", 2, 0, 0);
        let list = lists.find("event").unwrap();
        let mut seen = Vec::new();
        list.invoke(|handler| {
            seen.push(handler.function);
            if handler.tag == first {
                assert!(list.deregister(first));
                assert!(list.deregister(second));
                assert!(!list.is_gone(first));
                assert!(!list.is_settled());
            }
        });
        assert_eq!(seen, [1]);
        assert!(list.is_gone(first) && list.is_settled());
    }

    #[test]
    fn nobody_is_called_twice_when_others_are_registered_meanwhile() {
        let lists = Lists::new();
        lists.register("event", 1, 0, 10);
        let list = lists.find("event").unwrap();
        let mut seen = Vec::new();
        list.invoke(|handler| {
            seen.push(handler.function);
            if handler.function == 1 {
                lists.register("event", 2, 0, 0);
                lists.register("event", 3, 0, 20);
            }
        });
        assert_eq!(seen, [1, 3]);
    }

    #[test]
    fn handlers_that_come_and_go_on_other_cpus_do_no_harm() {
        let lists = Lists::new();
        let list = lists.find_or_create("event");
        lists.register_in(list, 1, 0, 0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let seen = functions(list);
                        assert_eq!(seen.iter().filter(|&&function| function == 1).count(), 1);
                    }
                });
            }
            for _ in 0..1000 {
                let tag = lists.register_in(list, 2, 0, 5);
                assert!(list.deregister(tag));
                while !list.is_gone(tag) {
                    std::thread::yield_now();
                }
            }
        });
        assert_eq!(functions(list), [1]);
    }
}
