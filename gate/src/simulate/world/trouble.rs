//! What breaks, and what mends.

use super::*;

impl World<'_> {
    pub(super) fn gate_of(&self, center: &str, number: usize) -> usize {
        let index = self
            .scenario
            .data_centers
            .iter()
            .position(|c| c.name == center);
        let first = self
            .gates
            .iter()
            .position(|g| Some(usize::from(g.center)) == index);
        first.unwrap_or(0) + number
    }

    pub(super) fn center_of(&mut self, name: &str) -> Option<&mut Center> {
        let index = self
            .scenario
            .data_centers
            .iter()
            .position(|c| c.name == name)?;
        self.centers.get_mut(index)
    }

    pub(super) fn breaks(&mut self, index: u16) {
        let Failure {
            kind, for_seconds, ..
        } = &self.scenario.failures[usize::from(index)];
        let until = self.now + for_seconds * 1000;
        match kind {
            FailureKind::CounterSlow { by_ms } => self.ledger_slow_ms = *by_ms,
            FailureKind::CounterGone { data_center: None } => self.ledger_up = false,
            FailureKind::CounterGone {
                data_center: Some(name),
            } => {
                if let Some(center) = self.center_of(name) {
                    center.stock_up = false;
                }
            }
            FailureKind::CounterEmptied { data_center: None } => {
                self.ledger = Ledger::default();
                self.waiters = WaitersBySecond::default();
                for gate in &mut self.gates {
                    gate.told = WaitersBySecond::default();
                }
            }
            FailureKind::CounterEmptied {
                data_center: Some(name),
            } => {
                let epoch = self.now + 2;
                if let Some(center) = self.center_of(name) {
                    center.stock = DataCenterStock::new(epoch);
                }
            }
            FailureKind::GateKilled { data_center, gate } => {
                let gate = self.gate_of(data_center, *gate);
                self.gates[gate].up = Up::Killed;
            }
            FailureKind::GateFrozen { data_center, gate } => {
                let gate = self.gate_of(data_center, *gate);
                self.gates[gate].up = Up::FrozenUntil(until);
            }
            FailureKind::ClockWrong {
                data_center,
                gate,
                by_ms,
            } => {
                // A gate sets its clock by the counter's when it starts, and is off by half a round trip at most.
                let gate = self.gate_of(data_center, *gate);
                let most = self.ledger_way(gate as u16) as i64;
                self.gates[gate].clock_ms = (*by_ms).clamp(-most, most);
            }
            FailureKind::DataCenterCutOff { data_center } => {
                if let Some(center) = self.center_of(data_center) {
                    center.cut_off = true;
                }
            }
        }
    }

    pub(super) fn mends(&mut self, index: u16) {
        match &self.scenario.failures[usize::from(index)].kind {
            FailureKind::CounterSlow { .. } => self.ledger_slow_ms = 0,
            FailureKind::CounterGone { data_center: None } => self.ledger_up = true,
            FailureKind::CounterGone {
                data_center: Some(name),
            } => {
                if let Some(center) = self.center_of(name) {
                    center.stock_up = true;
                    center.refilling_since = None;
                }
            }
            FailureKind::GateFrozen { data_center, gate } => {
                let gate = self.gate_of(data_center, *gate);
                self.gates[gate].up = Up::Running;
            }
            FailureKind::DataCenterCutOff { data_center } => {
                if let Some(center) = self.center_of(data_center) {
                    center.cut_off = false;
                }
            }
            FailureKind::CounterEmptied { .. }
            | FailureKind::GateKilled { .. }
            | FailureKind::ClockWrong { .. } => {}
        }
    }
}
