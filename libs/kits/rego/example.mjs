import { parseModule, Program } from '@toolfleet/rego';

const policy = parseModule(
  `
  package shop

  deny contains "too many" if input.count > 10
  deny contains msg if {
    some item in input.items
    not item in data.catalogue
    msg := sprintf("unknown item %s", [item])
  }
  `,
  'shop.rego',
);
const program = new Program([policy]);
const deny = program.find(['shop', 'deny']);

// Each rule, function and element that is walked calls spend: throw from it to bound the time of an evaluation.
let steps = 0;
const run = { strict: true, nowMs: Date.now(), spend: (units) => (steps += units) };
const input = { count: 12, items: ['pear', 'plum'] };
const result = program.start(run, input, { catalogue: ['pear'] }).evaluate(deny);
console.log(result.values(), steps > 0);

try {
  parseModule('package shop\n\nallow if http.send({})', 'shop.rego');
} catch (error) {
  console.log(error.message);
}
