//! Tables in Markdown, and numbers as people read them.

/// A table or a plot, by its name.
pub type Named = (&'static str, String);

/// A table under construction.
pub struct Table(String);

impl Table {
    /// One with these headings. All columns but the first are numbers.
    pub fn new(headings: &[&str]) -> Self {
        let mut table = Self(String::new());
        table.row(headings.iter().map(|heading| (*heading).to_owned()));
        table.row((0..headings.len()).map(|column| if column == 0 { "---".to_owned() } else { "---:".to_owned() }));
        table
    }

    /// One more row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells.into_iter().collect();
        self.0 += &format!("| {} |\n", cells.join(" | "));
    }

    /// Its text.
    pub fn text(self) -> String {
        self.0
    }
}

/// A whole number, with commas.
pub fn whole(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The same to two digits that count: what the model behind it can bear.
pub fn about(number: f64) -> String {
    let mut unit = 1.0;
    while number / unit >= 1_000.0 {
        unit *= 10.0;
    }
    whole((number / unit).round() * unit)
}

/// Two decimals.
pub fn fine(number: f64) -> String {
    format!("{number:.2}")
}

/// A part of one, in percent.
pub fn percent(part: f64) -> String {
    match part * 100.0 {
        none if none < 0.05 => "0 %".to_owned(),
        some if some < 9.95 => format!("{some:.1} %"),
        much => format!("{much:.0} %"),
    }
}
