//! Sets of CPUs or of memory nodes, in the kernel's forms: lists (`0-3,8`) and masks
//! (`ff,00000001`).
//!
//! A set is a bitmap without trailing zero words, so that equal sets compare equal.

use std::{fmt, str::FromStr};

/// Largest number in a set. The kernel has at most 8192 CPUs and 1024 memory nodes; a larger number
/// is a mistake, and would only take memory.
pub const MAX_NUMBER: usize = 1 << 16;

/// A set of CPUs, by their numbers.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet {
    words: Vec<u64>,
}

/// A set of memory nodes, by their numbers.
pub type NodeSet = CpuSet;

/// Text that is neither a list nor a mask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a list of CPUs such as \"0-3,8\"")]
pub struct NotAList(pub String);

impl CpuSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a mask as in sysfs: words of 32 bits in hexadecimal, the highest first.
    ///
    /// # Errors
    /// If the text is no mask.
    pub fn from_mask(text: &str) -> Result<Self, NotAList> {
        let mut set = Self::new();
        for (index, word) in text.trim().rsplit(',').enumerate() {
            let word =
                u32::from_str_radix(word.trim(), 16).map_err(|_| NotAList(text.to_owned()))?;
            (0..32).filter(|bit| word >> bit & 1 == 1).for_each(|bit| set.insert(index * 32 + bit));
        }
        Ok(set)
    }

    /// Adds a number.
    pub fn insert(&mut self, number: usize) {
        if self.words.len() <= number / 64 {
            self.words.resize(number / 64 + 1, 0);
        }
        self.words[number / 64] |= 1 << (number % 64);
    }

    /// Whether the set has this number.
    pub fn contains(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set has no members.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the smallest member.
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// Returns the members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(index * 64 + bit)
            })
        })
    }

    /// Returns the members of both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a & b)
    }

    /// Returns the members of either set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a | b)
    }

    /// Returns the members that the other set lacks.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a & !b)
    }

    /// Returns the number of members of both sets.
    pub fn common(&self, other: &Self) -> usize {
        let words = self.words.iter().zip(&other.words);
        words.map(|(a, b)| (a & b).count_ones() as usize).sum()
    }

    /// Whether the sets have a member in common.
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether the other set has all members of this one.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words
            .iter()
            .enumerate()
            .all(|(index, word)| word & !other.words.get(index).copied().unwrap_or_default() == 0)
    }

    fn combine(&self, other: &Self, combined: impl Fn(u64, u64) -> u64) -> Self {
        let word = |set: &Self, index: usize| set.words.get(index).copied().unwrap_or_default();
        let length = self.words.len().max(other.words.len());
        let mut words: Vec<u64> =
            (0..length).map(|index| combined(word(self, index), word(other, index))).collect();
        while words.last() == Some(&0) {
            words.pop();
        }
        Self { words }
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<T: IntoIterator<Item = usize>>(numbers: T) -> Self {
        let mut set = Self::new();
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }
}

impl FromStr for CpuSet {
    type Err = NotAList;

    fn from_str(text: &str) -> Result<Self, NotAList> {
        let wrong = || NotAList(text.to_owned());
        let number = |text: &str| {
            text.trim().parse().ok().filter(|n: &usize| *n <= MAX_NUMBER).ok_or_else(wrong)
        };
        let mut set = Self::new();
        for part in text.trim().split(',').filter(|part| !part.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong());
            }
            (first..=last).for_each(|number| set.insert(number));
        }
        Ok(set)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut members = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = members.next() {
            let mut last = first;
            while let Some(next) = members.next_if(|next| *next == last + 1) {
                last = next;
            }
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl serde::Serialize for CpuSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for CpuSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn lists_and_masks_are_read_and_written_as_the_kernel_does() {
        let check = |text: &str, written: &str| assert_eq!(set(text).to_string(), written);
        check("", "");
        check("0-3,8", "0-3,8");
        check("8,1,0,2\n", "0-2,8");
        check("63-65,128", "63-65,128");
        for wrong in ["a", "3-1", "-1", "1-", "99999999"] {
            assert_eq!(wrong.parse::<CpuSet>(), Err(NotAList(wrong.to_owned())));
        }
        assert_eq!(
            CpuSet::from_mask("019c67,00019c67\n").unwrap(),
            set("0-2,5-6,10-12,15-16").or(&set("32-34,37-38,42-44,47-48"))
        );
        assert!(CpuSet::from_mask("x").is_err());
        assert!(CpuSet::from_mask("00000000,00000000").unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn operations_are_those_of_sets(
            a in prop::collection::btree_set(0usize..300, 0..40),
            b in prop::collection::btree_set(0usize..300, 0..40),
        ) {
            let of = |numbers: &BTreeSet<usize>| numbers.iter().copied().collect::<CpuSet>();
            let (x, y) = (of(&a), of(&b));
            prop_assert_eq!(x.and(&y), of(&(&a & &b)));
            prop_assert_eq!(x.or(&y), of(&(&a | &b)));
            prop_assert_eq!(x.minus(&y), of(&(&a - &b)));
            prop_assert_eq!(x.common(&y), (&a & &b).len());
            prop_assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(x.iter().collect::<Vec<_>>(), a.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set(&x.to_string()), x);
        }
    }
}
