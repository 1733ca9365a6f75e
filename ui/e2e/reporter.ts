import { appendFileSync } from 'node:fs'
import { stripVTControlCharacters } from 'node:util'
import type { Reporter, TestCase, TestResult } from '@playwright/test/reporter'

const pipe = process.env.GATEWAY_REPORT

/**
 * Reports to test/e2e, one line each, which test starts, and how it ended, after how many tries and with which first
 * error. Without a pipe it reports nothing.
 */
export default class implements Reporter {
  private readonly told = new Set<string>()
  /** The running test, and its first error so far. The retry of a group repeats the tests before and after it. */
  private open?: { id: string; wrong: string }

  onTestBegin(test: TestCase) {
    if (this.open || this.told.has(test.id)) return
    this.told.add(test.id)
    this.open = { id: test.id, wrong: '' }
    this.tell(test)
  }

  onTestEnd(test: TestCase, { errors, retry }: TestResult) {
    if (this.open?.id !== test.id) return
    const wrong =
      this.open.wrong || errors.map(({ message, snippet }) => [message, snippet].filter(Boolean).join('\n')).join('\n')
    if (!test.ok() && retry < test.retries) {
      this.open.wrong = wrong || 'nothing'
      return
    }
    this.open = undefined
    this.tell(test, test.outcome(), retry + 1, wrong)
  }

  private tell(test: TestCase, outcome = '', tries = 0, wrong = '') {
    const name = test.titlePath().slice(2).join(': ')
    const line = JSON.stringify({ name, outcome, tries, wrong: stripVTControlCharacters(wrong) })
    if (pipe) appendFileSync(pipe, `${line}\n`)
  }
}
