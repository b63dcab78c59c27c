import { Controller } from '@nestjs/common';
import { ToolError, type Principal } from '@toolfleet/contracts';
import { ROUTES, type RouteInput } from '@toolfleet/contracts/resources';
import { compileSchema, explainErrors } from '@toolfleet/schema';
import { RuleTests } from '@toolfleet/rules';
import { Caller } from '../server/guards.js';
import { Input, Serves } from '../server/routes.js';
import { parseInstant } from './instants.js';

const BODY = compileSchema(ROUTES['POST /api/v1/rules/test'].body);

/** Rules before they are saved. */
@Controller()
export class RulesController {
  constructor(private readonly tests: RuleTests) {}

  /** What a rule would have done to recorded calls. @throws ToolError as `RuleTests.run` */
  @Serves('POST /api/v1/rules/test')
  test(@Caller() caller: Principal, @Input() { body }: RouteInput<'POST /api/v1/rules/test'>) {
    // The reader of routes checks the members of the body, not what is in them.
    const faults = BODY.check(body) ? [] : explainErrors(BODY.errors(body));
    if (faults.length > 0)
      throw new ToolError('REQUEST_INVALID', {
        message: `Invalid request: ${faults.map(({ path, message }) => `${path}: ${message}`).join('; ')}`,
        details: { fields: faults.map(({ path }) => path) },
      });
    const { from, to, ...test } = body;
    return this.tests.run(caller, {
      ...test,
      from: from === undefined ? undefined : parseInstant(from),
      to: to === undefined ? undefined : parseInstant(to),
    });
  }
}
