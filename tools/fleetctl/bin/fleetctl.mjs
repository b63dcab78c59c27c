#!/usr/bin/env node
// Runs on any Node >= 20; everything behind this line is built code.
import { existsSync } from 'node:fs';

const entry = new URL('../dist/main.js', import.meta.url);
if (!existsSync(entry)) {
  process.stderr.write('fleetctl is not built yet: run "npm start" once, or "npm run build"\n');
  process.exit(1);
}
const { main } = await import(entry.href);
process.exitCode = await main(process.argv.slice(2));
