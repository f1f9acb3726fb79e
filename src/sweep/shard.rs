//! A part of a sweep: every n-th run.

use super::SweepError;
use std::fmt;
use std::str::FromStr;

/// The part `index` of `count`, from 1.
///
/// ```
/// let shard: autohet::sweep::Shard = "2/4".parse()?;
/// assert_eq!((0..10).filter(|run| shard.has(*run)).collect::<Vec<_>>(), [1, 5, 9]);
/// # Ok::<(), autohet::sweep::SweepError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u32,
    count: u32,
}

/// What schedulers tell a process of its place: variables of its number, of the first number, of the step from one to the next
/// and of the number of processes.
const SCHEDULERS: [[&str; 4]; 3] = [
    ["SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP", "SLURM_ARRAY_TASK_COUNT"],
    ["JOB_COMPLETION_INDEX", "", "", "JOB_COMPLETIONS"],
    ["OMPI_COMM_WORLD_RANK", "", "", "OMPI_COMM_WORLD_SIZE"],
];

impl Shard {
    fn new(index: u32, count: u32) -> Result<Self, SweepError> {
        if (1..=count).contains(&index) {
            return Ok(Self { index, count });
        }
        Err(SweepError::Shard { problem: format!("there is no shard {index} of {count}") })
    }

    /// The shard that a scheduler gave this process, and the variable that says so: a task of a Slurm array, a pod of a
    /// Kubernetes job (whose number of completions it must be told as `JOB_COMPLETIONS`), a rank of Open MPI.
    pub fn of_environment(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<(Self, &'static str)>, SweepError> {
        for [number, first, step, count] in SCHEDULERS {
            let Some(text) = variable(number) else { continue };
            let whole = |name: &str, text: &str| {
                text.trim().parse::<u32>().map_err(|_| SweepError::Shard {
                    problem: format!("`{name}` is `{text}`, expected a whole number"),
                })
            };
            let Some(of) = variable(count) else {
                return Err(SweepError::Shard { problem: format!("`{number}` is set, and `{count}` isn't") });
            };
            // Slurm counts an array from where its user says, mostly 0 or 1.
            let from = match variable(first) {
                Some(from) => whole(first, &from)?,
                None => 0,
            };
            let step = match variable(step) {
                Some(text) => whole(step, &text)?.max(1),
                None => 1,
            };
            let index = whole(number, &text)?.checked_sub(from).and_then(|index| (index / step).checked_add(1));
            let index = index.ok_or_else(|| SweepError::Shard { problem: format!("`{number}` is below `{first}`") })?;
            return Ok(Some((Self::new(index, whole(count, &of)?)?, number)));
        }
        Ok(None)
    }

    /// Whether there is only this one.
    pub fn is_whole(self) -> bool {
        self.count == 1
    }

    /// Whether the run of this place, from 0, is a part of it.
    pub fn has(self, run: usize) -> bool {
        run % self.count as usize + 1 == self.index as usize
    }

    /// What to add to the name of a folder: `2-of-4`.
    pub fn suffix(self) -> String {
        format!("{}-of-{}", self.index, self.count)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = SweepError;

    fn from_str(text: &str) -> Result<Self, SweepError> {
        let refused = || SweepError::Shard { problem: format!("`{text}` isn't a shard") };
        let (index, count) = text.split_once('/').ok_or_else(refused)?;
        let number = |text: &str| text.parse::<u32>().map_err(|_| refused());
        Self::new(number(index)?, number(count)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_in_one_shard() {
        let shards: Vec<Shard> = ["1/3", "2/3", "3/3"].iter().map(|text| text.parse().unwrap()).collect();
        for run in 0..20 {
            assert_eq!(shards.iter().filter(|shard| shard.has(run)).count(), 1, "{run}");
        }
        for bad in ["", "0/3", "4/3", "1", "a/b", "1/0", "-1/3"] {
            assert!(bad.parse::<Shard>().unwrap_err().to_string().contains("\nhint: "), "{bad}");
        }
    }

    #[test]
    fn schedulers_count_in_their_own_ways() {
        let of = |set: &[(&str, &str)]| {
            let find = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            Shard::of_environment(find).map(|found| found.map(|(shard, _)| shard.to_string()))
        };
        assert_eq!(of(&[]).unwrap(), None);
        let slurm = [("SLURM_ARRAY_TASK_ID", "4"), ("SLURM_ARRAY_TASK_MIN", "1"), ("SLURM_ARRAY_TASK_COUNT", "8")];
        assert_eq!(of(&slurm).unwrap().as_deref(), Some("4/8"));
        let in_fives = [
            ("SLURM_ARRAY_TASK_ID", "20"),
            ("SLURM_ARRAY_TASK_MIN", "10"),
            ("SLURM_ARRAY_TASK_STEP", "5"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
        ];
        assert_eq!(of(&in_fives).unwrap().as_deref(), Some("3/3"));
        let from_zero = [("SLURM_ARRAY_TASK_ID", "0"), ("SLURM_ARRAY_TASK_COUNT", "8")];
        assert_eq!(of(&from_zero).unwrap().as_deref(), Some("1/8"));
        let pod = [("JOB_COMPLETION_INDEX", "2"), ("JOB_COMPLETIONS", "3")];
        assert_eq!(of(&pod).unwrap().as_deref(), Some("3/3"));
        let rank = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")];
        assert_eq!(of(&rank).unwrap().as_deref(), Some("1/1"));
        assert!(of(&pod[..1]).unwrap_err().to_string().contains("`JOB_COMPLETIONS` isn't"));
        assert!(of(&[("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "2")]).is_err());
        assert!(of(&[("OMPI_COMM_WORLD_RANK", "x"), ("OMPI_COMM_WORLD_SIZE", "2")]).is_err());
    }
}
