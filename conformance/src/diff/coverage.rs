use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How often a campaign reached each branch of a specification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage(BTreeMap<String, u64>);

impl Coverage {
    /// Counts a branch once.
    pub fn hit(&mut self, branch: &str) {
        self.hit_if(branch, true);
    }

    /// Counts a branch if it was reached.
    pub fn hit_if(&mut self, branch: &str, reached: bool) {
        if reached {
            match self.0.get_mut(branch) {
                Some(count) => *count += 1,
                None => drop(self.0.insert(branch.to_owned(), 1)),
            }
        }
    }

    /// How often a branch was reached.
    pub fn count(&self, branch: &str) -> u64 {
        self.0.get(branch).copied().unwrap_or(0)
    }

    /// Adds another part's counts.
    pub fn add(&mut self, other: &Self) {
        for (branch, count) in &other.0 {
            *self.0.entry(branch.clone()).or_default() += count;
        }
    }
}
