//! Compiled expressions, and whether a request fits one. Every operation takes time linear in the request's head; nothing
//! fails and nothing panics.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

use memchr::memmem;

use super::address::AddressSet;
use super::field::{Facts, Field, Value};
use super::list::HostSet;

#[derive(Clone, Debug)]
pub(super) enum Node {
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Xor(Vec<Node>),
    Test(Test),
    /// The test is about each value of a list.
    Any(Test),
    All(Test),
}

/// A value compared with what the expression says.
#[derive(Clone, Debug)]
pub(super) struct Test {
    pub(super) operand: Operand,
    pub(super) predicate: Predicate,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub(super) field: Field,
    /// For maps.
    pub(super) key: Option<String>,
    pub(super) pick: Pick,
    /// The innermost first.
    pub(super) functions: Vec<Function>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// The field has one value.
    Single,
    /// `[*]`
    Each,
    /// `[0]`
    Index(usize),
    /// The list itself; its length is all that can be asked.
    Whole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Lower,
    Upper,
    /// Of a text in bytes.
    Length,
}

#[derive(Clone, Debug)]
pub(super) enum Predicate {
    IsTrue,
    Equals(Box<[u8]>),
    Differs(Box<[u8]>),
    OneOf(HashSet<Box<[u8]>>),
    Contains(Box<memmem::Finder<'static>>),
    Matches(regex::bytes::Regex),
    StartsWith(Box<[u8]>),
    EndsWith(Box<[u8]>),
    Number(NumberOrder, i64),
    NumberIn(Vec<RangeInclusive<i64>>),
    AddressIn(Arc<AddressSet>),
    AddressNotIn(Arc<AddressSet>),
    HostIn(Arc<HostSet>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberOrder {
    Equal,
    Different,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Node {
    pub(super) fn holds(&self, facts: &Facts<'_>) -> bool {
        match self {
            Self::Not(node) => !node.holds(facts),
            Self::And(nodes) => nodes.iter().all(|node| node.holds(facts)),
            Self::Or(nodes) => nodes.iter().any(|node| node.holds(facts)),
            Self::Xor(nodes) => nodes
                .iter()
                .fold(false, |odd, node| odd ^ node.holds(facts)),
            Self::Test(test) => test.holds(facts),
            Self::Any(test) => test.any(facts),
            Self::All(test) => test.all(facts),
        }
    }
}

impl Test {
    /// Of one value. What is not there is unequal to everything.
    fn holds(&self, facts: &Facts<'_>) -> bool {
        let mut result = None;
        // Whether the walk broke off says no more than `result` does.
        let _walk = self.operand.each(facts, &mut |value| {
            result = Some(self.predicate.holds(&value));
            ControlFlow::Break(())
        });
        result.unwrap_or(matches!(
            self.predicate,
            Predicate::Differs(_) | Predicate::Number(NumberOrder::Different, _)
        ))
    }

    fn any(&self, facts: &Facts<'_>) -> bool {
        self.operand
            .each(facts, &mut |value| {
                if self.predicate.holds(&value) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .is_break()
    }

    /// Of a list with at least one value: that nothing was sent lets nobody through.
    fn all(&self, facts: &Facts<'_>) -> bool {
        let mut has_values = false;
        let walk = self.operand.each(facts, &mut |value| {
            has_values = true;
            if self.predicate.holds(&value) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        has_values && walk.is_continue()
    }
}

impl Operand {
    /// The values in order, until `visit` breaks.
    fn each(
        &self,
        facts: &Facts<'_>,
        visit: &mut dyn FnMut(Value<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self.pick {
            Pick::Single => match facts.single(self.field) {
                Some(value) => visit(self.apply(value)),
                None => ControlFlow::Continue(()),
            },
            Pick::Each => facts.each(self.field, self.key.as_deref(), &mut |text| {
                visit(self.apply(Value::Text(Cow::Borrowed(text))))
            }),
            Pick::Index(wanted) => {
                let mut index = 0;
                facts.each(self.field, self.key.as_deref(), &mut |text| {
                    index += 1;
                    if index <= wanted {
                        return ControlFlow::Continue(());
                    }
                    // There is one at most.
                    let _asked = visit(self.apply(Value::Text(Cow::Borrowed(text))));
                    ControlFlow::Break(())
                })
            }
            Pick::Whole => {
                let mut count = 0;
                let _walk = facts.each(self.field, self.key.as_deref(), &mut |_| {
                    count += 1;
                    ControlFlow::Continue(())
                });
                visit(Value::Number(count))
            }
        }
    }

    fn apply<'v>(&self, value: Value<'v>) -> Value<'v> {
        self.functions
            .iter()
            .fold(value, |value, function| match (function, value) {
                (Function::Lower, Value::Text(text)) => {
                    if text.iter().any(u8::is_ascii_uppercase) {
                        Value::Text(Cow::Owned(text.to_ascii_lowercase()))
                    } else {
                        Value::Text(text)
                    }
                }
                (Function::Upper, Value::Text(text)) => {
                    if text.iter().any(u8::is_ascii_lowercase) {
                        Value::Text(Cow::Owned(text.to_ascii_uppercase()))
                    } else {
                        Value::Text(text)
                    }
                }
                (Function::Length, Value::Text(text)) => {
                    Value::Number(i64::try_from(text.len()).unwrap_or(i64::MAX))
                }
                (Function::Lower | Function::Upper | Function::Length, value) => value,
            })
    }
}

impl Predicate {
    /// Types fit since the expression was checked; what does not fit does not hold.
    fn holds(&self, value: &Value<'_>) -> bool {
        match (self, value) {
            (Self::IsTrue, Value::Truth(truth)) => *truth,
            (Self::Equals(wanted), Value::Text(text)) => **text == **wanted,
            (Self::Differs(wanted), Value::Text(text)) => **text != **wanted,
            (Self::OneOf(wanted), Value::Text(text)) => wanted.contains(&**text),
            (Self::Contains(finder), Value::Text(text)) => finder.find(text).is_some(),
            (Self::Matches(regex), Value::Text(text)) => regex.is_match(text),
            (Self::StartsWith(wanted), Value::Text(text)) => text.starts_with(wanted),
            (Self::EndsWith(wanted), Value::Text(text)) => text.ends_with(wanted),
            (Self::Number(order, wanted), Value::Number(number)) => order.holds(number.cmp(wanted)),
            (Self::NumberIn(wanted), Value::Number(number)) => {
                wanted.iter().any(|range| range.contains(number))
            }
            (Self::AddressIn(set), Value::Address(address)) => set.contains(*address),
            (Self::AddressNotIn(set), Value::Address(address)) => !set.contains(*address),
            (Self::HostIn(set), Value::Text(host)) => set.contains(host),
            _ => false,
        }
    }
}

impl NumberOrder {
    const fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Different => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}
