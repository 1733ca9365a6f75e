import { appendFileSync } from 'node:fs'
import type { Reporter, TestCase } from '@playwright/test/reporter'

const pipe = process.env.GATEWAY_REPORT

/** Tells test/e2e, line by line, which test begins and how it ended. Without a pipe to write to there is nobody to tell. */
export default class implements Reporter {
  onTestBegin(test: TestCase) {
    this.tell(test, '')
  }

  onTestEnd(test: TestCase) {
    this.tell(test, test.outcome())
  }

  private tell(test: TestCase, outcome: string) {
    const name = test.titlePath().slice(2).join(': ')
    if (pipe) appendFileSync(pipe, `${JSON.stringify({ name, outcome })}\n`)
  }
}
