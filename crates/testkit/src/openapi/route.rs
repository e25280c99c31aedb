//! Path templates.

/// `/v1/runs/{run_id}` and the paths that it stands for.
#[derive(Debug)]
pub(crate) struct Template {
    text: String,
}

impl Template {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// How many segments are no parameter.
    pub(crate) fn literals(&self) -> usize {
        self.text.split('/').filter(|segment| !is_parameter(segment)).count()
    }

    /// Whether a path (without query) has this form. A parameter is one segment that is not empty; one at the end that is
    /// called `path` is all that is left.
    pub(crate) fn matches(&self, path: &str) -> bool {
        let (mut wanted, mut given) = (self.text.split('/'), path.split('/'));
        loop {
            match (wanted.next(), given.next()) {
                (None, None) => return true,
                (Some("{path}"), Some(_)) => return true,
                (Some(wanted), Some(given)) if is_parameter(wanted) && !given.is_empty() => {}
                (Some(wanted), Some(given)) if wanted == given => {}
                _ => return false,
            }
        }
    }
}

fn is_parameter(segment: &str) -> bool {
    segment.starts_with('{') && segment.ends_with('}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_one_segment() {
        let template = Template::new("/v1/runs/{run_id}/steps/{number}");
        assert!(template.matches("/v1/runs/run_1/steps/2"));
        assert!(!template.matches("/v1/runs/run_1/steps"));
        assert!(!template.matches("/v1/runs//steps/2"));
        assert!(!template.matches("/v1/runs/run_1/steps/2/more"));
        assert_eq!(template.literals(), 4);
    }

    #[test]
    fn a_path_at_the_end_has_slashes() {
        let template = Template::new("/v1/workspaces/{workspace_id}/files/{path}");
        assert!(template.matches("/v1/workspaces/wsp_1/files/a/b/c.txt"));
        assert!(!template.matches("/v1/workspaces/wsp_1/files"));
    }
}
