! SPDX-License-Identifier: BSD-3-Clause
!
! examples/halo/cg_threads.f90: cg.c in Fortran. It solves with the same matrix by the same steps,
! twice: the exchange is by MPI's Isend and Irecv, and by the halo library.
!
!     mpirun -np 2 halo_cg_threads_fortran [-n 40] [--matrix FILE.mtx] [--partition rows|metis]
!                                          [--solves 3]
!
! Only the main thread exchanges. Sums do not depend on the number of threads, so both solutions are
! equal bit by bit. It prints `PASS cg ...` with the least time of a whole solve by each.
program cg_threads
  use mpi
  use hk_halo
  use spmv_matrix
  use spmv_exchange_mpi
  use omp_lib, only: omp_get_max_threads
  use, intrinsic :: iso_c_binding
  implicit none

  integer, parameter :: steps_max = 500, chunk = 1024    ! elements that one thread sums
  integer, parameter :: edge_max = 430
  double precision, parameter :: tolerance = 1d-10       ! of the residual, relative to 1
  logical, parameter :: by_halo = .true., by_mpi = .false.

  type :: solver_t
    logical :: halo
    type(exchange_t) :: exchange
    type(hk_halo_t) :: h
    integer(c_int), allocatable :: local(:)
    double precision, allocatable :: x(:), r(:), q(:), part(:)    ! part: a sum for each chunk
    double precision :: residual = 0, seconds = huge(1d0)    ! seconds: of the fastest solve
    integer :: steps = 0
  end type

  type(matrix_t) :: m
  type(solver_t) :: mpi_solver, halo_solver
  double precision, allocatable, target, asynchronous :: p_mpi(:), p_halo(:)    ! with the ghosts
  character(len=:), allocatable :: why, file
  integer :: n = 40, solves = 3, rank, ranks, level, ierr, k
  logical :: metis = .false., differ, wrong

  call MPI_Init_thread(MPI_THREAD_FUNNELED, level, ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  if (level < MPI_THREAD_FUNNELED) call fail('this MPI allows no threads')
  file = ''
  call read_options()
  call matrix_make(MPI_COMM_WORLD, n, file, metis, m, why)
  if (len(why) > 0) call fail(why)
  call set_up(mpi_solver, by_mpi, p_mpi)
  call set_up(halo_solver, by_halo, p_halo)

  do k = 1, solves
    call solve(mpi_solver, p_mpi)
    call solve(halo_solver, p_halo)
  end do
  differ = any(transfer(mpi_solver%x, [0_c_int64_t]) /= transfer(halo_solver%x, [0_c_int64_t]))
  call MPI_Allreduce(MPI_IN_PLACE, differ, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierr)
  wrong = differ .or. .not. halo_solver%residual < 100 * tolerance
  if (rank == 0) call report()
  call hk_halo_free(halo_solver%h, ierr)
  call MPI_Finalize(ierr)
  if (wrong) stop 1, quiet=.true.

contains

  subroutine read_options()
    character(len=4096) :: name, v
    integer :: i

    do i = 1, command_argument_count(), 2
      call get_command_argument(i, name)
      v = ''
      if (i < command_argument_count()) call get_command_argument(i + 1, v)
      select case (name)
      case ('-n')
        n = number(v, edge_max)
      case ('--solves')
        solves = number(v, 1000)
      case ('--matrix')
        file = trim(v)
        if (file == '') call fail('--matrix has no file')
      case ('--partition')
        metis = v == 'metis'
        if (.not. metis .and. v /= 'rows') call fail('there is no partition "' // trim(v) // '"')
      case default
        call fail('there is no option "' // trim(name) // '"')
      end select
    end do
  end subroutine

  integer function number(text, most)
    character(len=*), intent(in) :: text
    integer, intent(in) :: most
    integer :: status

    status = 1
    if (verify(trim(text), '0123456789') == 0) read (text, *, iostat=status) number
    if (status /= 0) call fail('an option has a wrong number')
    if (number < 1 .or. number > most) call fail('an option has a wrong number')
  end function

  ! Prepares one of the two exchanges for the vector p, which it makes.
  subroutine set_up(s, halo, p)
    type(solver_t), intent(inout) :: s
    logical, intent(in) :: halo
    double precision, allocatable, target, intent(out) :: p(:)
    type(hk_halo_csr_t) :: plan
    integer(c_int) :: ghosts

    s%halo = halo
    allocate (s%local(size(m%column)))
    if (halo) then
      call hk_halo_csr(MPI_COMM_WORLD, m%rows, m%column, s%local, ghosts, plan, ierr)
      if (ierr /= 0) call fail(hk_halo_error())
    else
      call exchange_plan(MPI_COMM_WORLD, m%rows, m%column, s%local, ghosts, s%exchange)
    end if
    allocate (s%x(m%rows), s%r(m%rows), s%q(m%rows), p(m%rows + ghosts))
    allocate (s%part((m%rows + chunk - 1) / chunk))
    if (halo) then
      call hk_halo_csr_setup(plan, [c_loc(p)], MPI_DOUBLE_PRECISION, s%h, ierr)
      if (ierr /= 0) call fail(hk_halo_error())
      call hk_halo_csr_free(plan)
    end if
  end subroutine

  subroutine solve(s, p)
    type(solver_t), intent(inout) :: s
    double precision, intent(inout), contiguous, target, asynchronous :: p(:)
    double precision :: rr, first, next, curvature, alpha, took

    s%x = 0
    s%r = right_side()
    p(:m%rows) = s%r
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    took = MPI_Wtime()
    first = dot(s, s%r, s%r)
    rr = first
    s%steps = 0
    do while (s%steps < steps_max .and. rr > tolerance * tolerance * first)
      call multiply(s, p)
      curvature = dot(s, p, s%q)
      if (.not. curvature > 0) call fail('the matrix is not symmetric and positive definite; ' // &
        'fix: conjugate gradients need one that is')
      alpha = rr / curvature
      !$omp parallel workshare
      s%x = s%x + alpha * p(:m%rows)
      s%r = s%r - alpha * s%q
      !$omp end parallel workshare
      next = dot(s, s%r, s%r)
      !$omp parallel workshare
      p(:m%rows) = s%r + next / rr * p(:m%rows)
      !$omp end parallel workshare
      rr = next
      s%steps = s%steps + 1
    end do
    took = MPI_Wtime() - took
    if (rr > tolerance * tolerance * first) call fail('too many steps; fix: use a matrix that ' // &
      'is symmetric, positive definite and well conditioned')
    call MPI_Allreduce(MPI_IN_PLACE, took, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)
    s%seconds = min(s%seconds, took)

    ! the residual of the solution itself, not that of the recurrence
    p(:m%rows) = s%x
    call multiply(s, p)
    s%r = right_side() - s%q
    s%residual = sqrt(dot(s, s%r, s%r) / first)
  end subroutine

  function right_side() result(b)
    double precision :: b(m%rows)

    b = 1 + dble(mod(m%original - 1, 7_c_long_long))
  end function

  ! q = A p
  subroutine multiply(s, p)
    type(solver_t), intent(inout) :: s
    double precision, intent(inout), contiguous, target, asynchronous :: p(:)
    double precision :: total
    integer :: r, e

    if (s%halo) then
      call hk_halo_put(s%h, ierr)
      if (ierr == 0) call hk_halo_wait(s%h, ierr)
      if (ierr /= 0) call fail(hk_halo_error())
    else
      call exchange_elements(s%exchange, p)
    end if
    !$omp parallel do schedule(static) private(total, e)
    do r = 1, m%rows
      total = 0
      do e = m%start(r), m%start(r + 1) - 1
        total = total + m%value(e) * p(s%local(e))
      end do
      s%q(r) = total
    end do
  end subroutine

  double precision function dot(s, a, b)
    type(solver_t), intent(inout) :: s
    double precision, intent(in), contiguous :: a(:), b(:)
    double precision :: mine
    integer :: c, e

    !$omp parallel do schedule(static) private(e)
    do c = 1, size(s%part)
      s%part(c) = 0
      do e = (c - 1) * chunk + 1, min(c * chunk, m%rows)
        s%part(c) = s%part(c) + a(e) * b(e)
      end do
    end do
    mine = 0
    do c = 1, size(s%part)
      mine = mine + s%part(c)
    end do
    call MPI_Allreduce(mine, dot, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end function

  subroutine report()
    character(len=40) :: problem

    write (problem, '(i0, a)') n, '^3 points'
    if (file /= '') problem = 'matrix of a file'
    print '(a, i0, a, i0, 5a, i0, a, es8.1, 3a, f0.3, a, f0.3, a)', &
      trim(merge('FAIL', 'PASS', wrong)) // ' cg: ', ranks, ' ranks of ', omp_get_max_threads(), &
      ' threads, ', trim(problem), ', ', trim(merge('METIS', 'rows ', metis)), ', ', &
      halo_solver%steps, ' steps, residual', halo_solver%residual, '; solutions ', &
      trim(merge('differ   ', 'are equal', differ)), '; ', 1d3 * mpi_solver%seconds, &
      ' ms by MPI, ', 1d3 * halo_solver%seconds, ' ms by halo'
  end subroutine

  subroutine fail(text)
    character(len=*), intent(in) :: text

    character(len=*), parameter :: usage = '; fix: halo_cg_threads_fortran [-n N] ' // &
      '[--matrix FILE.mtx] [--partition rows|metis] [--solves N]'

    if (index(text, '; fix: ') > 0) then
      write (0, '(a)') 'cg: ' // text
    else
      write (0, '(a)') 'cg: ' // text // usage
    end if
    call MPI_Abort(MPI_COMM_WORLD, 2, ierr)
    stop 2
  end subroutine

end program
