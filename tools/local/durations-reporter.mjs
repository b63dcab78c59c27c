/**
 * A reporter of vitest that writes how long each file took, with its hooks and imports: the JSON report counts tests only, and where a
 * spec starts a fleet, that is most of its time. Writes `[{"file": …, "seconds": …}]` to TEST_DURATIONS_FILE.
 */
import { writeFileSync } from 'node:fs';

export default class DurationsReporter {
  #files = [];

  onTestModuleEnd(module) {
    const { environmentSetupDuration, prepareDuration, collectDuration, setupDuration, duration } = module.diagnostic();
    const totalMs = environmentSetupDuration + prepareDuration + collectDuration + setupDuration + duration;
    this.#files.push({ file: module.moduleId, seconds: totalMs / 1_000 });
  }

  onTestRunEnd() {
    const { TEST_DURATIONS_FILE: file } = process.env;
    if (file) writeFileSync(file, JSON.stringify(this.#files));
  }
}
