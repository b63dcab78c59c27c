/** The child process that reads costly arguments. Schemas come from remote servers, and arguments from callers. */
import { SIZES } from '@toolfleet/contracts/subjects';
import type { ArgumentJob } from '@toolfleet/engine';
import { serveJobs } from '@toolfleet/resilience/child-program';
import { ArgumentReader, CHILD_STEPS } from '@toolfleet/bounded-schema';

serveJobs(async ({ schema, rules, raw, view }: ArgumentJob) => {
  const reader = new ArgumentReader(schema, rules);
  return () => reader.read(raw, view, CHILD_STEPS);
}, SIZES.request);
