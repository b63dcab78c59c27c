import { Body, Controller, HttpCode, Post } from '@nestjs/common';
import { isJsonObject, ToolError } from '@toolfleet/contracts';

/** `POST /mcp/mock`: the plain function endpoint of smoke tests; local mode only. */
@Controller('mcp/mock')
export class MockFunctionController {
  @Post()
  @HttpCode(200)
  call(@Body() body: unknown) {
    if (!isJsonObject(body) || body.function !== 'echo') {
      throw new ToolError('REQUEST_INVALID', {
        message: "Only the function 'echo' is known",
        details: { fields: ['function'] },
      });
    }
    return { ok: true, function: 'echo', echo: body.args ?? {} };
  }
}
